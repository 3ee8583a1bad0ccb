package sandbox

import "taskdaemon/internal/failpoint"

var fpBeforeWarm = failpoint.New("sandbox.warm.before_spawn")

// takeWarm hands out the idle shim, if there is one.
func (s *Spool) takeWarm() *carrier {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.warm
	s.warm = nil
	return w
}

// warmUp starts an idle shim in the background, unless there is one. It can only fail to help: a
// command that finds none starts its own.
func (s *Spool) warmUp() {
	if !s.Warm {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.warm != nil {
		return
	}
	s.wg.Go(func() {
		fpBeforeWarm.Hit()
		w, err := s.spawn("-")
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed || s.warm != nil {
			s.mu.Unlock()
			w.dismiss()
			return
		}
		s.warm = w
		s.mu.Unlock()
	})
}

// Preheat makes the first command as fast as the later ones, if the spool keeps a warm shim at all.
func (s *Spool) Preheat() { s.warmUp() }

// dismiss ends an idle shim: it leaves when its standard input does.
func (c *carrier) dismiss() {
	c.close()
	_, _ = c.proc.Wait()
}

// Close ends the idle shim and stops watching the others. Running commands go on, to be adopted.
func (s *Spool) Close() {
	s.mu.Lock()
	s.closed = true
	w := s.warm
	s.warm = nil
	for _, c := range s.live {
		_ = c.carrier.notify.Close()
	}
	s.mu.Unlock()
	if w != nil {
		w.dismiss()
	}
	s.wg.Wait()
}
