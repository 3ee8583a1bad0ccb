// Package clean keeps secrets out of a journal (G-9), and thereby out of all that is made of it: the prompt, the
// stream of events, the mirror.
//
// Values that the daemon knows are taken out of every text of every record, whoever wrote it. What is only shaped like
// a secret is taken out of what comes from outside: results of tools, instructions, what people say. It stays in
// what the model says, because a call is carried out as it was recorded, and in evidence, which recovery compares.
package clean

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// Journal is a journal without secrets.
type Journal struct {
	store.Journal
	secrets *redact.Redactor
}

// New puts a redactor before a journal.
func New(j store.Journal, secrets *redact.Redactor) *Journal { return &Journal{j, secrets} }

// Treat says what becomes of a field of a request or of a task that holds a secret, by its name in JSON. What is not
// named here is refused: a field that is added is covered before anybody thinks of it.
func Treat(field string) redact.Treatment {
	switch field {
	case "title", "prompt", "text", "words", "question", "answer", "spec", "plan", "by", "created_by":
		return redact.Words
	case "rehearsal":
		return redact.Data
	}
	return redact.Exact
}

// Refused is the error for a field that holds a secret and may not be changed.
func Refused(field string) error {
	return td.Errorf(td.Invalid, "%s holds a secret: it would be stored in the clear", field).
		WithHint("leave it out; a command can read it itself, from a file or from a variable that it loads")
}

// Create records a new task without the secrets that its words hold. One that has a secret in anything else, such as its
// validator, is refused: what is carried out is what was asked for.
func (j *Journal) Create(ctx context.Context, spec td.Spec, key string) (td.Task, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return td.Task{}, td.Errorf(td.Internal, "take secrets out of a task: %w", err)
	}
	clean, refused := j.secrets.Request(raw, Treat)
	if refused == "" && j.secrets.Holds([]byte(key)) {
		refused = "key"
	}
	if refused != "" {
		return td.Task{}, Refused(refused)
	}
	if !bytes.Equal(clean, raw) {
		spec = td.Spec{}
		if err := json.Unmarshal(clean, &spec); err != nil {
			return td.Task{}, td.Errorf(td.Internal, "take secrets out of a task: %w", err)
		}
	}
	return j.Journal.Create(ctx, spec, key)
}

// Post puts a command into an inbox without secrets: of its words none, and of everything else none that is known.
func (j *Journal) Post(ctx context.Context, task td.TaskID, cmd td.Command) error {
	cmd.Text = j.secrets.String(cmd.Text)
	if cmd.Answer != nil {
		a := j.answer(*cmd.Answer)
		cmd.Answer = &a
	}
	if cmd.Query != nil {
		q := j.query(*cmd.Query)
		cmd.Query = &q
	}
	raw, err := json.Marshal(cmd)
	if err != nil {
		return td.Errorf(td.Internal, "take secrets out of a command: %w", err)
	}
	if clean := j.secrets.Known(raw); !bytes.Equal(clean, raw) {
		cmd = td.Command{}
		if err := json.Unmarshal(clean, &cmd); err != nil {
			return td.Errorf(td.Internal, "take secrets out of a command: %w", err)
		}
	}
	return j.Journal.Post(ctx, task, cmd)
}

// Append writes events without secrets.
func (j *Journal) Append(ctx context.Context, c td.Claim, after uint64, evs ...td.Event) (td.Task, error) {
	evs = slices.Clone(evs)
	for i, ev := range evs {
		if ev.Body == nil {
			continue // refused below
		}
		clean, err := j.Clean(ev.Body)
		if err != nil {
			return td.Task{}, err
		}
		evs[i].Body = clean
	}
	return j.Journal.Append(ctx, c, after, evs...)
}

// Clean is what the journal keeps of a body.
func (j *Journal) Clean(b td.Body) (td.Sealed, error) {
	if s, is := b.(td.Sealed); is {
		return s, nil
	}
	sealed, err := td.Seal(j.shapes(b))
	if err != nil {
		return td.Sealed{}, err
	}
	raw := j.secrets.Known(sealed.Raw())
	if len(raw) == len(sealed.Raw()) && &raw[0] == &sealed.Raw()[0] {
		return sealed, nil
	}
	again := td.DecodeBody(b.Type(), raw)
	if u, bad := again.(td.Unreadable); bad {
		return td.Sealed{}, td.Errorf(td.Internal, "take secrets out of %s: %s", u.Was, u.Err)
	}
	return td.Seal(again)
}

// shapes takes what is shaped like a secret out of texts from outside.
func (j *Journal) shapes(b td.Body) td.Body {
	text := j.secrets.String
	switch b := b.(type) {
	case td.ContextSet:
		b.System = text(b.System)
		b.Opening.Blocks = slices.Clone(b.Opening.Blocks)
		for i := range b.Opening.Blocks {
			b.Opening.Blocks[i].Text = text(b.Opening.Blocks[i].Text)
		}
		return b
	case td.StepEnded:
		if b.Tool != nil {
			t := *b.Tool
			t.Content = text(t.Content)
			if t.Side != nil {
				side := *t.Side
				side.Text, side.Error = text(side.Text), text(side.Error)
				t.Side = &side
			}
			b.Tool = &t
		}
		return b
	case td.Said:
		b.Text = text(b.Text)
		return b
	case td.Received:
		b.Text = text(b.Text)
		return b
	case td.Queried:
		return j.query(b)
	case td.IterationEnded: // other tasks are told of it
		b.Reason, b.Notes = text(b.Reason), text(b.Notes)
		return b
	case td.RequestOpened:
		b.Request.Prompt, b.Request.Detail = text(b.Request.Prompt), text(b.Request.Detail)
		// A rule that names a secret is not offered: it would be kept.
		b.Request.Offers = slices.DeleteFunc(slices.Clone(b.Request.Offers), func(o td.Offer) bool {
			return slices.ContainsFunc(append(slices.Clone(o.Rules), o.Words), func(s string) bool { return text(s) != s })
		})
		return b
	case td.RequestAnswered:
		b.Answer = j.answer(b.Answer)
		return b
	case td.Moved:
		b.Status.Reason = text(b.Status.Reason)
		if b.Status.Failed != nil {
			f := *b.Status.Failed
			f.Error = text(f.Error)
			b.Status.Failed = &f
		}
		if b.Status.Waiting != nil {
			w := *b.Status.Waiting
			w.Prompt = text(w.Prompt)
			b.Status.Waiting = &w
		}
		return b
	}
	return b
}

func (j *Journal) answer(a td.Answer) td.Answer {
	a.Choice, a.Words = j.secrets.String(a.Choice), j.secrets.String(a.Words)
	return a
}

func (j *Journal) query(q td.Queried) td.Queried {
	q.Question, q.Side.Text, q.Side.Error = j.secrets.String(q.Question), j.secrets.String(q.Side.Text), j.secrets.String(q.Side.Error)
	return q
}
