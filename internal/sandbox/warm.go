package sandbox

import (
	"maps"
	"slices"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var fpBeforeWarm = failpoint.New("sandbox.warm.before_spawn")

// How many shims that served a task wait for its next command, and for how long.
const (
	mostIdle = 16
	idleFor  = 30 * time.Second
)

// takeIdle hands out the shim that served the task before, or else the warm one that has had the most time
// to get ready, if there is one. A shim serves one task only: what a command did to its shim, say to its
// limits, is no other task's trouble. And it serves one kind of profile only, for the same reason.
func (s *Spool) takeIdle(task td.TaskID, p *Profile) *carrier {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.idle[task]; w != nil {
		delete(s.idle, task)
		w.rest.Stop()
		if w.kind == p.kind() {
			return w
		}
		s.wg.Go(w.dismiss)
	}
	ready := s.warm[p.nested()]
	if len(ready) == 0 {
		return nil
	}
	w := ready[0]
	s.warm[p.nested()] = append(ready[:0], ready[1:]...)
	w.task, w.kind = task, p.kind()
	return w
}

// putIdle keeps the shim of a command that has ended for the task's next, and reports whether it did.
func (s *Spool) putIdle(c *child) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := c.carrier
	if s.Warm == 0 || s.closed || w.doomed || s.idle[w.task] != nil || len(s.idle) >= mostIdle {
		return false
	}
	s.idle[w.task] = w
	w.rest = time.AfterFunc(idleFor, func() {
		s.mu.Lock()
		mine := s.idle[w.task] == w
		if mine {
			delete(s.idle, w.task)
		}
		s.mu.Unlock()
		if mine {
			w.dismiss()
		}
	})
	return true
}

// warmUp starts idle shims in the background until there are as many as are wanted. It can only fail to
// help: a command that finds none starts its own.
func (s *Spool) warmUp(nested bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.warm == nil {
		s.warm, s.warming = map[bool][]*carrier{}, map[bool]int{}
	}
	for ; !s.closed && len(s.warm[nested])+s.warming[nested] < s.Warm; s.warming[nested]++ {
		s.wg.Go(func() { s.addWarm(nested) })
	}
}

func (s *Spool) addWarm(nested bool) {
	fpBeforeWarm.Hit()
	w, err := s.spawn(nested)
	s.mu.Lock()
	s.warming[nested]--
	closed := s.closed
	if err == nil && !closed {
		s.warm[nested] = append(s.warm[nested], w)
	}
	s.mu.Unlock()
	if err == nil && closed {
		w.dismiss()
	}
}

// Preheat makes the first command as fast as the later ones, if the spool keeps warm shims at all.
func (s *Spool) Preheat() { s.warmUp(s.Nested && !mayAdmin()) }

// dismiss ends an idle shim: it leaves when its standard input does.
func (c *carrier) dismiss() {
	c.close()
	_, _ = c.proc.Wait()
}

// Close ends the idle shims and stops watching the others. Running commands go on, to be adopted.
func (s *Spool) Close() {
	s.mu.Lock()
	s.closed = true
	idle := slices.Concat(s.warm[false], s.warm[true], slices.Collect(maps.Values(s.idle)))
	s.warm, s.idle = nil, nil
	for _, c := range s.live {
		_ = c.carrier.notify.Close()
	}
	s.mu.Unlock()
	for _, w := range idle {
		w.dismiss()
	}
	s.wg.Wait()
}
