package git

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpImportDone = failpoint.New("git.import.before_done")
	fpImportWait = failpoint.New("git.import.after_done")
)

// Commit is one commit of an Import.
type Commit struct {
	Ref string
	// Onto is the commit it is made on, when it is its ref's first in this import; later ones are made
	// on the one before. Empty: it has no parent.
	Onto    string
	When    time.Time
	Message string
	Removed []string
	Files   []File
}

// File is a file in a commit. Its content is the parts one after the other, so that a large body need
// not be copied to be wrapped.
type File struct {
	Path  string
	Parts []string
}

// Import writes many commits to many refs in one go. Refs move when all commits are on disk, and only
// forward: a ref that someone else has moved off the commit it was built on makes Done fail with
// td.Conflict, though others may have moved by then. An import that is cut short, by Abort or by a
// crash before Done, moves none.
type Import struct {
	ctx  context.Context
	git  *process
	in   io.WriteCloser
	buf  *bufio.Writer
	said *tail
	size int64
	over bool // git has ended and been waited for

	marks string   // file that git lists the commits in
	refs  []string // of the commits, by mark
}

// Import starts an import. Done or Abort must be called.
func (r *Repo) Import(ctx context.Context) (*Import, error) {
	// It lies in the repository, under a name Sweep knows, so that a crash leaves no litter elsewhere.
	marks, err := os.CreateTemp(r.path, "tmp_marks_*")
	if err != nil {
		return nil, td.Errorf(td.Storage, "start import: %w", err)
	}
	_ = marks.Close()
	im := &Import{ctx: ctx, said: &tail{max: 4 << 10}, marks: marks.Name()}
	if err := im.start(r); err != nil {
		im.clean()
		return nil, err
	}
	return im, nil
}

func (im *Import) start(r *Repo) error {
	c := r.call(true, "fast-import", "--quiet", "--done", "--date-format=raw", "--active-branches=1024",
		"--export-marks="+im.marks)
	// Large bodies are streamed to disk, not held in memory and compared with their neighbours. What is small, nearly all there is, is packed by
	// its likeness to what was there before; to squeeze it hard as well takes a sixth more of the processor and saves next to nothing of the disk.
	c.set = []string{"core.bigFileThreshold=1m", "fastimport.unpackLimit=" + strconv.Itoa(unpackLimit), "core.compression=1"}
	p, err := command(im.ctx, c)
	if err != nil {
		return err
	}
	p.stderr = im.said
	if im.in, err = p.inPipe(); err != nil {
		return fmt.Errorf("start import: %w", err)
	}
	if err := p.start(); err != nil {
		return failure(im.ctx, c.args, err, "")
	}
	im.git, im.buf = p, bufio.NewWriterSize(im.in, 64<<10)
	return nil
}

// Crossed reports whether an import failed because another one is writing the same at this moment: that of a daemon that was killed, and that it outlived.
func Crossed(err error) bool {
	return err != nil && strings.Contains(err.Error(), "cannot create keep file")
}

// Size is the number of bytes given to the import so far.
func (im *Import) Size() int64 { return im.size }

// Add hands one commit over. After an error the import is lost: Abort it.
func (im *Import) Add(c Commit) error {
	// git keeps seconds since 1970 and no sign.
	when := min(max(c.When.Unix(), 0), lastSecond)
	im.refs = append(im.refs, c.Ref)
	im.printf("commit %s\nmark :%d\ncommitter %s <%s> %d +0000\n", c.Ref, len(im.refs), authorName, authorEmail, when)
	im.data(c.Message)
	if c.Onto != "" {
		im.printf("from %s\n", c.Onto)
	}
	for _, p := range c.Removed {
		im.printf("D %s\n", quotePath(p))
	}
	for _, f := range c.Files {
		im.printf("M 100644 inline %s\n", quotePath(f.Path))
		im.data(f.Parts...)
	}
	// bufio remembers its first error, so this is where all of the above are seen.
	if _, err := im.buf.WriteString("\n"); err != nil {
		return im.broken(err)
	}
	return nil
}

// lastSecond is the end of the year 9999, the last one git can print.
const lastSecond = 253402300799

func (im *Import) printf(format string, args ...any) {
	n, _ := fmt.Fprintf(im.buf, format, args...)
	im.size += int64(n)
}

func (im *Import) data(parts ...string) {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	im.printf("data %d\n", size)
	for _, p := range parts {
		n, _ := im.buf.WriteString(p)
		im.size += int64(n)
	}
	im.printf("\n")
}

// Done ends the import and returns the commit each ref now points to. A nil error means that all of it
// is on disk.
func (im *Import) Done() (tips map[string]string, err error) {
	defer im.clean()
	fpImportDone.Hit()
	im.printf("done\n")
	err = im.buf.Flush()
	if cerr := im.in.Close(); err == nil {
		err = cerr
	}
	fpImportWait.Hit()
	if err != nil {
		return nil, im.broken(err)
	}
	im.over = true
	if err := im.git.wait(); err != nil {
		return nil, failure(im.ctx, []string{"fast-import"}, err, im.said.String())
	}
	raw, err := os.ReadFile(im.marks)
	if err != nil {
		return nil, td.Errorf(td.Storage, "read marks: %w", err)
	}
	return im.tips(string(raw))
}

// tips reads git's list of marks. A ref's last commit is its tip.
func (im *Import) tips(marks string) (map[string]string, error) {
	newest, tips := map[string]int{}, map[string]string{}
	for l := range strings.Lines(marks) {
		mark, commit, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
		n, err := strconv.Atoi(strings.TrimPrefix(mark, ":"))
		if err != nil || n < 1 || n > len(im.refs) || commit == "" {
			return nil, td.Errorf(td.Internal, "read marks: not a mark: %.100q", l)
		}
		if ref := im.refs[n-1]; n > newest[ref] {
			newest[ref], tips[ref] = n, commit
		}
	}
	return tips, nil
}

// Abort gives the import up. No ref has moved. After an error of Done it does nothing.
func (im *Import) Abort() {
	if im.over {
		return
	}
	defer im.clean()
	im.over = true
	im.git.kill()
	_ = im.in.Close()
	_ = im.git.wait()
}

func (im *Import) clean() { _ = os.Remove(im.marks) }

// broken explains a pipe that broke: git has ended and said why.
func (im *Import) broken(err error) error {
	im.over = true
	defer im.clean()
	_ = im.in.Close()
	if werr := im.git.wait(); werr != nil {
		err = werr
	}
	return failure(im.ctx, []string{"fast-import"}, err, im.said.String())
}

// quotePath quotes a path the way fast-import reads it.
func quotePath(p string) string {
	out := make([]byte, 0, len(p)+2)
	out = append(out, '"')
	for i := range len(p) {
		switch c := p[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < ' ':
			out = fmt.Appendf(out, `\%03o`, c)
		default:
			out = append(out, c)
		}
	}
	return string(append(out, '"'))
}
