package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/td"
)

// followEvery is how often a log that is followed is looked at.
const followEvery = 200 * time.Millisecond

type daemonLogsOptions struct {
	app    *app
	follow bool
	crash  bool
	lines  int
}

func newDaemonLogsCmd(a *app) *cobra.Command {
	o := daemonLogsOptions{app: a}
	cmd := &cobra.Command{
		Use: "logs", Short: "Show the daemon's log", Args: args(cobra.NoArgs, "no arguments"),
		Long:        "Show the daemon's log, as text or, with --json, as it was written. Works without a daemon.",
		Example:     "  taskdaemon daemon logs -f",
		Annotations: exits(exitOK, exitNotFound),
		RunE:        func(cmd *cobra.Command, _ []string) error { return runDaemonLogs(cmd.Context(), o) },
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "stay and show what comes")
	cmd.Flags().BoolVar(&o.crash, "crash", false, "show what daemons that crashed said outside of the log")
	cmd.Flags().IntVarP(&o.lines, "lines", "n", 50, "lines to begin with; 0 is all")
	return cmd
}

// logPath is the daemon's log in a state folder.
func logPath(stateDir string) string { return filepath.Join(stateDir, "logs", "daemon.log") }

func runDaemonLogs(ctx context.Context, o daemonLogsOptions) error {
	dir, err := o.app.stateDir()
	if err != nil {
		return err
	}
	if o.crash {
		return o.printCrash(dir)
	}
	path := logPath(dir)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return td.Errorf(td.NotFound, "there is no log yet in %s", filepath.Dir(path)).WithHint("taskdaemon daemon start")
	}
	if err != nil {
		return td.Errorf(td.Storage, "read the log: %w", err)
	}
	defer func() { f.Close() }()
	if err := o.begin(f); err != nil {
		return err
	}
	for o.follow && pause(ctx, followEvery) {
		if err := o.copy(f); err != nil {
			return err
		}
		if next, ok := rotated(f, path); ok {
			if err := errors.Join(o.copy(f), f.Close()); err != nil { // what came between the two looks
				return err
			}
			f = next
		}
	}
	return nil
}

// printCrash prints the last words of daemons, without secrets.
func (o daemonLogsOptions) printCrash(dir string) error {
	said, err := lastWords(errPath(dir), o.app.secrets(nil))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return td.Errorf(td.Storage, "read the log: %w", err)
	}
	if len(said) == 0 {
		o.app.say("no daemon crashed here")
		return nil
	}
	lines := slices.Collect(strings.Lines(plainText(string(said))))
	if o.lines > 0 {
		lines = lines[max(0, len(lines)-o.lines):]
	}
	_, err = io.WriteString(o.app.stdout, strings.Join(lines, ""))
	return written(err)
}

// begin prints the last lines of the file and leaves it at its end.
func (o daemonLogsOptions) begin(f *os.File) error {
	if o.lines <= 0 {
		return o.copy(f)
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return td.Errorf(td.Storage, "read the log: %w", err)
	}
	from := max(0, end-int64(o.lines)*2000)
	raw, err := io.ReadAll(io.NewSectionReader(f, from, end-from))
	if err != nil {
		return td.Errorf(td.Storage, "read the log: %w", err)
	}
	lines := slices.Collect(strings.Lines(string(raw)))
	if from > 0 && len(lines) > 0 {
		lines = lines[1:] // torn by the cut
	}
	for _, line := range lines[max(0, len(lines)-o.lines):] {
		if err := o.print(line); err != nil {
			return err
		}
	}
	return nil
}

// copy prints whole lines from where the file stands to its end.
func (o daemonLogsOptions) copy(f *os.File) error {
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			// A line that is being written is left for the next look.
			_, err = f.Seek(-int64(len(line)), io.SeekCurrent)
		} else if err == nil {
			if err = o.print(line); err == nil {
				continue
			}
			return err
		}
		if err != nil {
			return td.Errorf(td.Storage, "read the log: %w", err)
		}
		return nil
	}
}

// rotated opens the file that has taken f's name, if there is one.
func rotated(f *os.File, path string) (*os.File, bool) {
	mine, err1 := f.Stat()
	now, err2 := os.Stat(path)
	if err1 != nil || err2 != nil || os.SameFile(mine, now) {
		return nil, false
	}
	next, err := os.Open(path)
	return next, err == nil
}

func (o daemonLogsOptions) print(line string) error {
	if o.app.json {
		_, err := io.WriteString(o.app.stdout, strings.TrimRight(line, "\n")+"\n")
		return written(err)
	}
	_, err := fmt.Fprintln(o.app.stdout, logLine(line, o.app.style))
	return written(err)
}

// logLine turns a line of JSON into text; what it cannot read it leaves as it is.
func logLine(line string, s style) string {
	line = strings.TrimSpace(line)
	var fields map[string]json.RawMessage
	var at time.Time
	var level, msg string
	if json.Unmarshal([]byte(line), &fields) != nil || json.Unmarshal(fields["time"], &at) != nil ||
		json.Unmarshal(fields["level"], &level) != nil || json.Unmarshal(fields["msg"], &msg) != nil {
		return plainText(line)
	}
	level = strings.ToLower(level)
	shown := level
	switch level {
	case "error":
		shown = s.red(level)
	case "warn":
		shown = s.warn(level)
	}
	out := s.dim(at.Local().Format("2006-01-02 15:04:05")) + " " + shown + " " + plainLine(msg, 2000)
	names := make([]string, 0, len(fields))
	for name := range fields {
		if name != "time" && name != "level" && name != "msg" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		value := string(fields[name])
		var text string
		if json.Unmarshal(fields[name], &text) == nil {
			value = text
		}
		out += " " + s.dim(plainLine(name, 40)+"=") + plainLine(value, 2000)
	}
	return out
}
