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
// limits, is no other task's trouble.
func (s *Spool) takeIdle(task td.TaskID) *carrier {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.idle[task]; w != nil {
		delete(s.idle, task)
		w.rest.Stop()
		return w
	}
	if len(s.warm) == 0 {
		return nil
	}
	w := s.warm[0]
	s.warm = append(s.warm[:0], s.warm[1:]...)
	w.task = task
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
func (s *Spool) warmUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; !s.closed && len(s.warm)+s.warming < s.Warm; s.warming++ {
		s.wg.Go(s.addWarm)
	}
}

func (s *Spool) addWarm() {
	fpBeforeWarm.Hit()
	w, err := s.spawn()
	s.mu.Lock()
	s.warming--
	closed := s.closed
	if err == nil && !closed {
		s.warm = append(s.warm, w)
	}
	s.mu.Unlock()
	if err == nil && closed {
		w.dismiss()
	}
}

// Preheat makes the first command as fast as the later ones, if the spool keeps warm shims at all.
func (s *Spool) Preheat() { s.warmUp() }

// dismiss ends an idle shim: it leaves when its standard input does.
func (c *carrier) dismiss() {
	c.close()
	_, _ = c.proc.Wait()
}

// Close ends the idle shims and stops watching the others. Running commands go on, to be adopted.
func (s *Spool) Close() {
	s.mu.Lock()
	s.closed = true
	idle := append(s.warm, slices.Collect(maps.Values(s.idle))...)
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
