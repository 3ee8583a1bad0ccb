package sandbox

import "taskdaemon/internal/failpoint"

var fpBeforeWarm = failpoint.New("sandbox.warm.before_spawn")

// takeWarm hands out the idle shim that has had the most time to get ready, if there is one.
func (s *Spool) takeWarm() *carrier {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.warm) == 0 {
		return nil
	}
	w := s.warm[0]
	s.warm = append(s.warm[:0], s.warm[1:]...)
	return w
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
	w, err := s.spawn("-")
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
	idle := s.warm
	s.warm = nil
	for _, c := range s.live {
		_ = c.carrier.notify.Close()
	}
	s.mu.Unlock()
	for _, w := range idle {
		w.dismiss()
	}
	s.wg.Wait()
}
