package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// desk takes what a person types while tasks are shown: commands, answers and messages. Every line is handed to somebody or refused
// with a sentence, and none is left in the terminal for the shell, which would carry it out.
type desk struct {
	app     *app
	service api.Service

	mu      sync.Mutex
	shown   []*seat
	numbers map[td.RequestID]int // of questions, in the order in which they were first open; never given twice
	begun   chan struct{}        // closed when a task is shown for the first time: what was typed before is for it
}

// seat is a task that is shown.
type seat struct {
	watch *watch
	view  *view
}

// question is an open request of somebody who is shown: of a task, or of who verifies it.
type question struct {
	seat    *seat
	task    td.TaskID
	request td.Request
	number  int
}

// openDesk begins to read the terminal, if there is one, until the desk is closed.
func (a *app) openDesk(ctx context.Context, service api.Service) (d *desk, closeDesk func()) {
	aside := *a // what is typed is talk: it must not get into what the command prints
	aside.stdout, aside.style, aside.json = a.stderr, a.talk, false
	aside.service = func(context.Context) (api.Service, error) { return service, nil }
	d = &desk{app: &aside, service: service, numbers: map[td.RequestID]int{}, begun: make(chan struct{})}
	if !isTerminal(a.stdin) {
		return d, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { d.read(ctx, a.stdin.(*os.File)) })
	return d, func() {
		cancel()
		reading.Wait()
	}
}

// seat takes a task in that is shown; leave takes it out.
func (d *desk) seat(w *watch, v *view) (leave func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.begun:
	default:
		close(d.begun)
	}
	s := &seat{w, v}
	d.shown = append(d.shown, s)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.shown = slices.DeleteFunc(d.shown, func(o *seat) bool { return o == s })
	}
}

// read hands on line after line. It looks at the terminal in short waits, so that it ends soon after ctx.
func (d *desk) read(ctx context.Context, tty *os.File) {
	defer d.app.clearTyped()
	select {
	case <-d.begun:
	case <-ctx.Done():
		return
	}
	fd := int(tty.Fd())
	var line strings.Builder
	buf := make([]byte, 4096)
	for ctx.Err() == nil {
		if !ready(fd, 100) {
			continue
		}
		n, err := unix.Read(fd, buf)
		if err != nil || n == 0 {
			return // the terminal is gone, or closed with Ctrl-D; watching goes on
		}
		line.Write(buf[:n])
		for {
			text, rest, whole := strings.Cut(line.String(), "\n")
			if !whole {
				break
			}
			line.Reset()
			line.WriteString(rest)
			d.app.at.entered()
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			if err := d.typed(ctx, text); err != nil {
				d.app.printError(nil, err)
			}
		}
	}
}

// ready reports whether a line can be read, after at most so many milliseconds. A process in the background must not touch the terminal:
// it would be stopped.
func ready(fd, wait int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, wait)
	if err != nil || n <= 0 {
		return false
	}
	return foreground(fd)
}

func foreground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp() // not the terminal of this session: nobody is stopped for it
}

// clearTyped takes what is left in the terminal, whole lines and what is not a line yet, and says so: the shell would carry it out.
func (a *app) clearTyped() {
	if !isTerminal(a.stdin) {
		return
	}
	fd := int(a.stdin.(*os.File).Fd())
	buf := make([]byte, 4096)
	for ready(fd, 0) {
		n, err := unix.Read(fd, buf)
		if err != nil || n == 0 {
			return
		}
		for text := range strings.Lines(string(buf[:n])) {
			if text = strings.TrimSpace(text); text != "" {
				a.say("%s", a.talk.warn("not sent, for nothing is shown any more: "+plainLine(text, 200)))
			}
		}
	}
	if foreground(fd) {
		_ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) // a terminal that is gone holds nothing
	}
}

// typed hands a line to whom it is for.
func (d *desk) typed(ctx context.Context, text string) error {
	seats, open := d.look()
	if len(seats) == 0 {
		return td.Errorf(td.Conflict, "not sent, for no task is shown now: %s", plainLine(text, 200))
	}
	seats, open, text, err := address(seats, open, text)
	if err != nil {
		return err
	}
	switch {
	case isSlash(text) && len(seats) > 1:
		return d.which(seats, text)
	case isSlash(text):
		return d.app.slash(ctx, seats[0].watch.task.Handle, text)
	case len(open) > 1:
		return several(open)
	case len(open) == 1:
		cmd := answerTo(open[0].request, strings.Fields(text))
		return d.send(ctx, open[0].task, cmd)
	case len(seats) > 1:
		return d.which(seats, text)
	}
	return d.send(ctx, seats[0].watch.task.ID, api.Command{Type: td.CmdMessage, Text: text})
}

func (d *desk) send(ctx context.Context, to td.TaskID, cmd api.Command) error {
	cmd.By = d.app.by()
	if _, err := d.service.Command(ctx, string(to), cmd); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// look is who is shown, and what they ask.
func (d *desk) look() ([]*seat, []question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var open []question
	for _, s := range d.shown {
		task, requests := s.watch.asked(s.view)
		for _, r := range requests {
			if d.numbers[r.ID] == 0 {
				d.numbers[r.ID] = len(d.numbers) + 1
			}
			open = append(open, question{s, task, r, d.numbers[r.ID]})
		}
	}
	slices.SortFunc(open, func(a, b question) int { return a.number - b.number })
	return slices.Clone(d.shown), open
}

// address narrows down whom a line is for by its first word, and takes that off: a task, a question, or the number of one where there
// are several. A line without such a word is for all that are shown.
func address(seats []*seat, open []question, text string) ([]*seat, []question, string, error) {
	first, rest, _ := strings.Cut(text, " ")
	for _, s := range seats {
		if first == s.watch.task.Handle {
			seats = []*seat{s}
			open = slices.DeleteFunc(open, func(q question) bool { return q.seat != s })
			return seats, open, strings.TrimSpace(rest), wordless(first, rest)
		}
	}
	for _, q := range open {
		if first == q.request.Handle() || len(open) > 1 && first == strconv.Itoa(q.number) {
			return []*seat{q.seat}, []question{q}, strings.TrimSpace(rest), wordless(first, rest)
		}
	}
	return seats, open, text, nil
}

func wordless(first, rest string) error {
	if strings.TrimSpace(rest) != "" {
		return nil
	}
	return td.Errorf(td.Invalid, "not sent: nothing stands after %s", first).WithHint("%s yes", first)
}

// which says that a line for one task must name it, where several are shown.
func (d *desk) which(seats []*seat, text string) error {
	handles := make([]string, len(seats))
	for i, s := range seats {
		handles[i] = s.watch.task.Handle
	}
	return td.Errorf(td.Ambiguous, "not sent, for %d tasks are shown: %s. Begin with the one you mean", len(seats), strings.Join(handles, ", ")).
		WithHint("%s %s", handles[0], td.Words(plainLine(text, 80)))
}

// several says that an answer must name its question.
func several(open []question) error {
	names := make([]string, len(open))
	for i, q := range open {
		names[i] = fmt.Sprintf("%d %s (%s)", q.number, q.request.Handle(), plainLine(q.request.Question(), 60))
	}
	return td.Errorf(td.Ambiguous, "not sent, for %d questions are open: %s. Begin with the number of the one you mean", len(open), strings.Join(names, ", ")).
		WithHint("%d yes", open[0].number)
}
