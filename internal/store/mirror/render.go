package mirror

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// draft is what a checkpoint adds to the branch.
type draft struct {
	subject string
	body    string // lines
	files   []git.File
	removed []string
	// answer and result say that it is part of a turn.
	answer, result bool
}

// turn is an answer with the results of its calls, which make one checkpoint together: a commit costs git the same however much is in it.
type turn struct {
	said    string
	results []string // a line each
	files   []git.File
}

func (t *turn) add(d *draft) {
	if d.answer {
		t.said = d.subject
	} else {
		t.results = append(t.results, d.subject)
	}
	t.files = append(t.files, d.files...)
}

// draft is the checkpoint that the turn with this number makes.
func (t *turn) draft(number int) *draft {
	d := &draft{files: t.files}
	for _, r := range t.results {
		d.body += "- " + r + "\n"
	}
	d.subject = fmt.Sprintf("turn %d: %s", number, orElse(t.said, strings.Join(t.results, ", ")))
	return d
}

// render turns an event into a draft, or nil when it is no checkpoint. It is called before the event is
// folded in.
func (s *state) render(ev td.Event) *draft {
	switch b := ev.Body.(type) {
	case td.Created:
		return s.created(b)
	case td.ContextSet:
		return s.context(b)
	case td.Said:
		return s.message("user", "message from "+orSomeone(b.By)+": "+b.Text, b.Text, "\n")
	case td.Received:
		return s.message("user", "message from "+orSomeone(b.By)+": "+b.Text, b.Text, "\n")
	case td.StepEnded:
		return s.step(b.Outcome)
	case td.Discarded:
		return s.discarded(b)
	case td.Rewound:
		s.Since, s.Calls = nil, nil
		return &draft{subject: fmt.Sprintf("rewound to %s by %s; the messages since are not seen any more", b.To, orSomeone(b.By))}
	case td.Forked:
		return s.forked(b)
	case td.RequestOpened:
		return s.asked(b.Request)
	case td.RequestAnswered:
		return s.answered(b.Answer)
	case td.RequestExpired:
		if b.Why != "" {
			return s.closed(b.ID, "taken back", "Taken back: "+b.Why+".")
		}
		return s.closed(b.ID, "nobody answered in time", "Nobody answered in time: denied automatically.")
	case td.Moved:
		return s.moved(b)
	case td.Trimmed:
		return s.gone(b.Was, "trimmed", "The body of this record was removed by retention before it was mirrored here.")
	case td.Unreadable:
		return s.gone(b.Was, "unreadable", "This record cannot be read: "+b.Err+".\n\n", fenced("text", string(b.Raw))...)
	}
	return nil
}

func (s *state) created(b td.Created) *draft {
	raw, err := json.MarshalIndent(b.Spec, "", " ")
	if err != nil {
		raw = []byte("null")
	}
	return &draft{
		subject: "created: " + b.Spec.Title,
		files:   []git.File{{Path: "spec.json", Parts: []string{string(raw), "\n"}}},
	}
}

func (s *state) context(b td.ContextSet) *draft {
	at := fmt.Sprintf("context/%04d-", b.Iteration)
	d := s.message("user", fmt.Sprintf("context set: iteration %d, %s", b.Iteration, b.Provider), blocks(b.Opening)...)
	d.files = append(d.files, git.File{Path: at + "system.md", Parts: []string{b.System, "\n"}})
	if len(b.Tools) > 0 {
		d.files = append(d.files, git.File{Path: at + "tools.json", Parts: []string{string(b.Tools), "\n"}})
	}
	return d
}

// message adds the next file of the conversation.
func (s *state) message(who, subject string, parts ...string) *draft {
	path := fmt.Sprintf("messages/%04d-%s.md", s.Next, who)
	s.Next++
	if len(s.Since) > 0 {
		s.Since = append(slices.Clone(s.Since), path)
	}
	return &draft{subject: subject, files: []git.File{{Path: path, Parts: parts}}}
}

func (s *state) step(o td.Outcome) *draft {
	switch {
	case o.Model != nil:
		return s.answer(o)
	case o.Tool != nil:
		return s.tool(o)
	}
	return nil // a model call that failed is tried again or ends the task, which is a checkpoint
}

func (s *state) answer(o td.Outcome) *draft {
	m := o.Model.Message
	s.Calls = nil
	var calls []string
	for i, u := range m.ToolUses() {
		c := toolUse{Index: i, Name: u.Name, Brief: oneLine(gist(u.Input), 100)}
		s.Calls, calls = append(s.Calls, c), append(calls, call(c.Name, c.Brief))
	}
	text := m.Text()
	if strings.TrimSpace(text) == "" {
		text = strings.Join(calls, ", ")
	}
	s.Since = nil
	d := s.message("assistant", text, blocks(m)...)
	d.answer = true
	s.Since = []string{d.files[0].Path}
	return d
}

func (s *state) tool(o td.Outcome) *draft {
	var name, what string
	if i := slices.IndexFunc(s.Live.InFlight, func(r td.StepRef) bool { return r.Key == o.Key }); i >= 0 {
		name = s.Live.InFlight[i].Name
	}
	if i := s.callOf(string(o.Key), name); i >= 0 {
		name, what = s.Calls[i].Name, s.Calls[i].Brief
		s.Calls = slices.Delete(slices.Clone(s.Calls), i, i+1)
	}
	if name == "" {
		name = "tool"
	}
	r := o.Tool
	head := "# " + oneLine(name, 80)
	if what != "" {
		head += ": " + what
	}
	head += "\n\n"
	if r.Exit != nil {
		head += fmt.Sprintf("exit %d. ", *r.Exit)
	}
	if r.IsError {
		head += "An error. "
	}
	if o.Via != td.Ran && o.Via != "" {
		head += fmt.Sprintf("Known because it was %s. ", o.Via)
	}
	parts := append([]string{strings.TrimRight(head, " ") + "\n\n"}, fenced("text", r.Content)...)
	d := s.message("tool-"+safeName(name), call(name, what), parts...)
	d.result = true
	return d
}

// call is a tool call in a line.
func call(name, brief string) string { return strings.TrimRight(oneLine(name, 80)+" "+brief, " ") }

// callOf finds the call a step belongs to: the one whose place in the answer its key ends with, else the
// first of its name.
func (s *state) callOf(key, name string) int {
	i := slices.IndexFunc(s.Calls, func(u toolUse) bool {
		return strings.HasSuffix(key, fmt.Sprintf(".%d", u.Index)) && (name == "" || name == u.Name)
	})
	if i < 0 {
		i = slices.IndexFunc(s.Calls, func(u toolUse) bool { return u.Name == name })
	}
	return i
}

// forked adds the conversation that the task begins with, message by message.
func (s *state) forked(b td.Forked) *draft {
	d := &draft{subject: fmt.Sprintf("goes on from %s of %s", b.Step, td.Handle(td.TaskHandle, string(b.From), td.HandleLength))}
	for _, m := range b.Messages {
		d.files = append(d.files, s.message(string(m.Role), "", blocks(m)...).files...)
	}
	return d
}

func (s *state) discarded(b td.Discarded) *draft {
	d := &draft{subject: "last answer discarded by " + orSomeone(b.By), removed: s.Since}
	s.Since, s.Calls = nil, nil
	return d
}

func (s *state) moved(b td.Moved) *draft {
	st := b.Status
	why := st.Reason
	switch {
	case st.Completed != nil:
		why = st.Completed.Summary
	case st.Failed != nil:
		why = st.Failed.Error
	case st.State.Terminal() || st.State == td.Paused || st.State == td.Blocked:
	case b.Verb == td.VerbReset:
		return &draft{subject: "tried again: " + why}
	default:
		return nil
	}
	return &draft{subject: string(st.State) + ": " + why}
}

func (s *state) asked(r td.Request) *draft {
	return &draft{subject: "asked for " + string(r.Kind) + ": " + r.Prompt, files: []git.File{requestFile(r, "")}}
}

func (s *state) answered(a td.Answer) *draft {
	said := fmt.Sprintf("Answer from %s: %s", orSomeone(a.By), a.Choice)
	if a.Words != "" {
		said += "\n\n" + a.Words
	}
	return s.closed(a.Request, "answer from "+orSomeone(a.By)+": "+a.Choice, said)
}

func (s *state) closed(id td.RequestID, subject, said string) *draft {
	r, ok := td.Task{Live: s.Live}.Request(id)
	if !ok {
		r = td.Request{ID: id}
	}
	return &draft{subject: subject, files: []git.File{requestFile(r, said)}}
}

func requestFile(r td.Request, said string) git.File {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n", orElse(string(r.Kind), "request"), r.Prompt)
	if r.Detail != "" {
		b.WriteString("\n" + strings.Join(fenced("text", r.Detail), ""))
	}
	if len(r.Options) > 0 {
		fmt.Fprintf(&b, "\nOptions: %s\n", strings.Join(r.Options, ", "))
	}
	if said != "" {
		fmt.Fprintf(&b, "\n## Answer\n\n%s\n", said)
	}
	return git.File{Path: "requests/" + safeName(r.Handle()) + ".md", Parts: []string{b.String()}}
}

// gone stands for a record of the conversation that can no longer be read.
func (s *state) gone(was td.EventType, how, text string, more ...string) *draft {
	switch was {
	case "context_set", "said", "step_ended":
		return s.message(how, how+": "+string(was), append([]string{text + "\n"}, more...)...)
	case "created", "request_opened", "request_answered", "request_expired":
		return &draft{subject: how + ": " + string(was)}
	}
	return nil
}
