package cli

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// signalled tells when something has been written.
type signalled struct {
	text strings.Builder
	told chan struct{}
	once sync.Once
}

func (s *signalled) Write(p []byte) (int, error) {
	defer s.once.Do(func() { close(s.told) })
	return s.text.Write(p)
}

func TestSayingWhatTakesLong(t *testing.T) {
	out := &signalled{told: make(chan struct{})}
	a := &app{stderr: out}
	want := errors.New("its error")
	err := a.saying("counting", time.Millisecond, func() error { <-out.told; return want })
	if !errors.Is(err, want) || !strings.HasPrefix(out.text.String(), "counting: 0s so far\n") {
		t.Errorf("%v, said %q", err, out.text.String())
	}
	quick := &signalled{told: make(chan struct{})}
	if err := (&app{stderr: quick}).saying("counting", time.Hour, func() error { return nil }); err != nil || quick.text.Len() > 0 {
		t.Errorf("%v, said %q", err, quick.text.String())
	}
}
