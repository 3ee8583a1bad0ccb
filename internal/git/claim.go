package git

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"taskdaemon/internal/td"
)

// claim is a branch that is about to move. git holds its locks on the branch and on HEAD until then: whoever commits meanwhile is told by their git that another one is at
// work. If this process dies, git reads the end of its input and removes the locks by itself.
type claim struct {
	ctx  context.Context
	git  *process
	in   io.WriteCloser
	out  *bufio.Reader
	said *tail
	late atomic.Bool
	over bool
}

// claim makes ready to move the branch from one commit to another. Conflict if it is elsewhere, Locked if somebody else is about to move it. What is claimed must be released.
func (p *place) claim(ctx context.Context, from, to string) (*claim, error) {
	// A git that is killed leaves its locks in a person's checkout. This one ends when it is told to.
	ctx = context.WithoutCancel(ctx)
	git, err := command(ctx, p.call(true, "update-ref", "-m", "taskdaemon", "--stdin"))
	if err != nil {
		return nil, err
	}
	c := &claim{ctx: ctx, git: git, said: &tail{max: 4 << 10}}
	git.stderr = c.said
	if c.in, err = git.inPipe(); err != nil {
		return nil, fmt.Errorf("hold %s: %w", shortRef(p.ref), err)
	}
	out, err := git.outPipe()
	if err != nil {
		return nil, fmt.Errorf("hold %s: %w", shortRef(p.ref), err)
	}
	if err := git.start(); err != nil {
		return nil, failure(ctx, []string{"update-ref"}, err, "")
	}
	c.out = bufio.NewReader(out)
	if err := c.ask("start\n"+orders("update "+p.ref+" "+to+" "+from), "prepare"); err != nil {
		return nil, err
	}
	return c, nil
}

// move moves the branch.
func (c *claim) move() error { return c.ask("", "commit") }

// ask gives git commands, and waits until it has carried out the last. If it fails, the claim is released.
func (c *claim) ask(first, last string) error {
	wait := c.watch()
	_, err := io.WriteString(c.in, first+last+"\n")
	for line := ""; err == nil && line != last+": ok\n"; {
		line, err = c.out.ReadString('\n')
	}
	wait.Stop()
	if err == nil {
		return nil
	}
	if ended := c.end(); ended != nil {
		err = ended // it says why
	}
	if c.late.Load() {
		return td.Errorf(td.Unavailable, "git update-ref: no answer after %s", mayIdle)
	}
	return failure(c.ctx, []string{"update-ref"}, err, c.said.String())
}

// release lets the branch go where it is. What has moved stays so.
func (c *claim) release() { _ = c.end() }

func (c *claim) end() error {
	if c.over {
		return nil
	}
	c.over = true
	_ = c.in.Close()
	defer c.watch().Stop()
	return c.git.wait()
}

// watch ends a git that does not answer.
func (c *claim) watch() *time.Timer {
	return time.AfterFunc(mayIdle, func() {
		c.late.Store(true)
		c.git.kill()
	})
}
