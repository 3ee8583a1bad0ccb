package git

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"taskdaemon/internal/td"
)

// maxObject is the largest object Objects hands out whole.
const maxObject = 64 << 20

// Objects reads objects of a repository through one long-lived git process. It is for one goroutine, and
// sees what was there when it was made.
type Objects struct {
	ctx  context.Context
	git  *process
	in   io.WriteCloser
	out  *bufio.Reader
	said *tail
}

// Objects starts a reader. Close ends it.
func (r *Repo) Objects(ctx context.Context) (*Objects, error) {
	c := r.call(false, "cat-file", "--batch")
	p, err := command(ctx, c)
	if err != nil {
		return nil, err
	}
	o := &Objects{ctx: ctx, git: p, said: &tail{max: 4 << 10}}
	p.stderr = o.said
	if o.in, err = p.inPipe(); err != nil {
		return nil, fmt.Errorf("start reader: %w", err)
	}
	out, err := p.outPipe()
	if err != nil {
		return nil, fmt.Errorf("start reader: %w", err)
	}
	if err := p.start(); err != nil {
		return nil, failure(ctx, c.args, err, "")
	}
	o.out = bufio.NewReader(out)
	return o, nil
}

// Get is the content and the id of the object that name stands for ("refs/heads/main:folder/file"). The
// id is empty when there is none.
func (o *Objects) Get(name string) (content []byte, id string, err error) {
	if strings.ContainsAny(name, "\n\x00") {
		return nil, "", td.Errorf(td.Invalid, "read object: no object can be called %q", name)
	}
	if _, err := io.WriteString(o.in, name+"\n"); err != nil {
		return nil, "", failure(o.ctx, []string{"cat-file"}, err, o.said.String())
	}
	content, id, err = readObject(o.out)
	if err != nil {
		err = failure(o.ctx, []string{"cat-file"}, err, o.said.String())
	}
	return content, id, err
}

// readObject reads one answer of `git cat-file --batch`.
func readObject(r *bufio.Reader) ([]byte, string, error) {
	head, err := r.ReadString('\n')
	if err != nil {
		return nil, "", fmt.Errorf("read answer: %w", err)
	}
	head = strings.TrimSuffix(head, "\n")
	if strings.HasSuffix(head, " missing") || strings.HasSuffix(head, " ambiguous") {
		return nil, "", nil
	}
	parts := strings.Split(head, " ")
	if len(parts) != 3 {
		return nil, "", fmt.Errorf("read answer: not a header: %.100q", head)
	}
	size, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || size < 0 || size > maxObject {
		return nil, "", fmt.Errorf("read answer: bad size in %.100q", head)
	}
	content, err := io.ReadAll(io.LimitReader(r, size))
	if err == nil && int64(len(content)) < size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		_, err = r.Discard(1) // the newline after the content
	}
	if err != nil {
		return nil, "", fmt.Errorf("read answer: %w", err)
	}
	return content, parts[0], nil
}

// Close ends the reader.
func (o *Objects) Close() {
	_ = o.in.Close()
	o.git.kill()
	_ = o.git.wait()
}
