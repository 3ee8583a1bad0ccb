package cli

import "taskdaemon/internal/td"

// receivedFrom is who sent a message, and to whom.
func receivedFrom(r td.Received) string {
	who := r.By
	if r.Handle != "" {
		who = r.Handle
	}
	switch {
	case r.Kind != td.MailNotify:
		return who + " shares"
	case r.Topic != "":
		return who + " notifies of " + r.Topic
	}
	return who + " notifies"
}

// queriedWords is what came of a question.
func queriedWords(q td.Queried) string {
	switch {
	case q.Lost:
		return "there was no answer"
	case q.Side.Error != "":
		return q.Side.Error
	}
	return q.Side.Text
}
