package cli

import (
	"context"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// readAnswers hands what is typed on the terminal to the task: to its open request, else as a message.
// It looks at the terminal in short waits, so that it ends soon after ctx.
func (w *watch) readAnswers(ctx context.Context, v *view) {
	tty, ok := w.app.stdin.(*os.File)
	if !ok {
		return
	}
	var line strings.Builder
	buf := make([]byte, 4096)
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(tty.Fd()), Events: unix.POLLIN}}, 100)
		if err != nil && err != unix.EINTR {
			return
		}
		if n <= 0 {
			continue
		}
		n, err = unix.Read(int(tty.Fd()), buf)
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
			w.typed(ctx, v, strings.TrimSpace(text))
		}
	}
}

func (w *watch) typed(ctx context.Context, v *view, text string) {
	if text == "" {
		return
	}
	task, requests := w.asked(v)
	cmd := api.Command{Type: td.CmdMessage, Text: text}
	if len(requests) > 0 {
		cmd = answerTo(requests[0], strings.Fields(text))
	}
	cmd.By = w.app.by()
	if _, err := w.service.Command(ctx, string(task), cmd); err != nil && ctx.Err() == nil {
		w.app.printError(nil, err)
	}
}
