// Package rebuild makes the journal again when it was lost or damaged, from what is kept beside it: the records of tasks
// from the git mirror of their conversations, and how planned tasks ended from the graphs of their projects.
//
// It works while no daemon does. The new journal is made in a folder of its own and put in its place whole, so a death at
// any point leaves the old one or the new one, and the next try goes on. What was there before is moved aside and never
// removed. A journal that can be opened is added to: tasks that it has stay as they are.
//
// What a task did after its newest mirrored record is not known. So nothing that had not ended goes on by itself: it is
// paused, and a person decides.
package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/store/mirror"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

var (
	fpCopied  = failpoint.New("rebuild.journal.copied")
	fpFilled  = failpoint.New("rebuild.journal.filled")
	fpBlobs   = failpoint.New("rebuild.place.blobs")
	fpMirror  = failpoint.New("rebuild.place.mirror")
	fpAside   = failpoint.New("rebuild.place.aside")
	fpRenamed = failpoint.New("rebuild.place.renamed")
	fpPlaced  = failpoint.New("rebuild.place.placed")
	fpSettled = failpoint.New("rebuild.place.settled")
	fpCleared = failpoint.New("rebuild.place.cleared")
)

// Options say whose journal it is.
type Options struct {
	StateDir string
	Repo     string // where the conversations are mirrored
	Graphs   string // the folder with the indexes of graphs
	Version  string
	Marked   uint64 // how far the journal is known to have been, from outside of the state folder
	Log      *slog.Logger
	Now      func() time.Time // nil: time.Now
}

// Report is what came of it.
type Report struct {
	// Damaged says that the journal that was there could not be opened.
	Damaged  string     `json:"damaged,omitempty"`
	Aside    []string   `json:"aside,omitempty"` // what was there before, and is kept
	There    int        `json:"there"`           // tasks that the journal had
	Restored []Restored `json:"restored"`
	Projects []Project  `json:"projects,omitempty"`
	// Lost is what could not be restored, in words.
	Lost []string `json:"lost,omitempty"`
}

// Restored is one task.
type Restored struct {
	Task    td.TaskID `json:"task"`
	Handle  string    `json:"handle"`
	Title   string    `json:"title"`
	State   td.State  `json:"state"`
	Records int       `json:"records"`
	What    string    `json:"what,omitempty"` // in words, what is not known of it
}

// Project is a graph that was found. Its tasks are in its own files.
type Project struct {
	Root  string `json:"root"`
	Tasks int    `json:"tasks"`
	Open  int    `json:"open"`
	// Unknown are those of the open ones that the journal does not have: planned only, or added just before it was damaged.
	Unknown []string `json:"unknown,omitempty"`
}

// folder is where the new journal is made, within the state folder.
const folder = "rebuild"

type builder struct {
	Options
	at      string // where the new journal is made
	damaged bool
	behind  bool // it can be opened, and has lost its end
	report  Report
	graphs  graphs
	known   map[string]bool // tasks that the new journal has; nil: it lacks none
}

// Run makes the journal again.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	b := &builder{Options: o, at: filepath.Join(o.StateDir, folder)}
	b.graphs = graphs{b: b}
	defer b.graphs.close()
	if err := b.run(ctx); err != nil {
		return b.report, fmt.Errorf("rebuild the journal: %w", err)
	}
	return b.report, nil
}

func (b *builder) run(ctx context.Context) error {
	if err := b.examine(ctx); err != nil {
		return err
	}
	release, err := sqlite.Lock(b.StateDir)
	if err != nil {
		return err
	}
	defer release()
	if err := os.RemoveAll(b.at); err != nil { // of a try that was cut off
		return td.Errorf(td.Storage, "clear %s: %w", b.at, err)
	}
	changed, err := b.fill(ctx)
	if td.IsKind(err, td.Corrupt) && !b.damaged {
		b.damaged, b.report = true, Report{Damaged: err.Error()}
		changed, err = b.fill(ctx)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(b.at))
	}
	fpFilled.Hit()
	if err := b.graphs.count(ctx); err != nil {
		return err
	}
	if changed || b.damaged {
		if err := b.place(); err != nil {
			return err
		}
	}
	if b.known != nil {
		if err := sandbox.SettleSpool(b.spool(), b.known); err != nil {
			return err
		}
	}
	fpSettled.Hit()
	if err := os.RemoveAll(b.at); err != nil {
		return td.Errorf(td.Storage, "clear %s: %w", b.at, err)
	}
	fpCleared.Hit()
	return nil
}

// examine finds out whether the journal can be opened; where there is none, an empty one is made. It is closed in order,
// so that all of it is in one file.
func (b *builder) examine(ctx context.Context) error {
	started, err := sandbox.SpoolTasks(b.spool())
	if err != nil {
		return err
	}
	o := sqlite.Options{Dir: b.StateDir, Log: b.Log, Seen: mirror.Seen(b.Repo), Marked: b.Marked, Tasks: started}
	j, err := sqlite.Open(ctx, o)
	if td.IsKind(err, td.Corrupt) && b.there() {
		b.report.Damaged = err.Error()
		if err := b.keepLog(); err != nil { // which opening it all the same would empty
			return err
		}
		o.Behind = true
		j, err = sqlite.Open(ctx, o)
		b.behind = err == nil
	}
	if td.IsKind(err, td.Corrupt) {
		b.damaged, b.report.Damaged = true, err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	return j.Close()
}

// there reports whether there is a journal.
func (b *builder) there() bool {
	_, err := os.Stat(filepath.Join(b.StateDir, journalFile))
	return err == nil
}

// fill makes the new journal: what can be had of the old one, and what that lacks. It reports whether that was anything.
func (b *builder) fill(ctx context.Context) (changed bool, err error) {
	if err := os.RemoveAll(b.at); err != nil {
		return false, td.Errorf(td.Storage, "clear %s: %w", b.at, err)
	}
	if err := os.MkdirAll(b.at, 0o700); err != nil {
		return false, td.Errorf(td.Storage, "make %s: %w", b.at, err)
	}
	if !b.damaged {
		if err := b.copy(); err != nil {
			return false, err
		}
	}
	fpCopied.Hit()
	self := td.Holder{Host: "rebuild", Pid: os.Getpid()}
	counted, err := b.counted()
	if err != nil {
		return false, err
	}
	// It counts on from where the lost one was, so that no copy of that is taken for newer.
	j, err := sqlite.Open(ctx, sqlite.Options{Dir: b.at, Log: b.Log, Behind: true, Marked: counted, Alive: func(h td.Holder) bool { return h == self }})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	f := filler{builder: b, journal: j, self: self}
	f.reader, err = mirror.OpenReader(ctx, b.Repo)
	switch {
	case td.IsKind(err, td.NotFound):
		b.lost("conversations: there are none in %s", b.Repo)
	case err != nil:
		return false, err
	default:
		defer f.reader.Close()
		if err := f.tasks(ctx); err != nil {
			return false, err
		}
	}
	if b.behind {
		if err := f.halt(ctx); err != nil {
			return false, err
		}
	}
	if len(b.report.Restored) == 0 && !b.behind {
		if b.damaged {
			err = f.unknown(ctx)
		}
		return false, err
	}
	if err := f.unknown(ctx); err != nil {
		return false, err
	}
	b.lost("the ledger of costs: what is booked is what the conversations tell; limits that were raised are as in the config again")
	b.lost("what was in flight, commands that no task had taken, and what the daemon itself did and whom it told")
	return true, f.sign(ctx)
}

func (b *builder) lost(format string, args ...any) {
	b.report.Lost = append(b.report.Lost, fmt.Sprintf(format, args...))
}
