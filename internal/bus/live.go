package bus

import "sync"

// Topic carries what is not journaled to whoever looks on just now: pieces of answers and of output on
// their way. Publishing never blocks; a subscriber that does not keep up loses the oldest pieces and is
// told so.
type Topic[T any] struct {
	mu   sync.Mutex
	subs map[*Subscription[T]]struct{}
}

// Subscription is one reader of a topic.
type Subscription[T any] struct {
	topic *Topic[T]
	match func(T) bool
	limit int

	mu    sync.Mutex
	queue []T
	gap   bool
	ready chan struct{}
}

// Subscribe adds a reader of the values that match, who may fall limit values behind.
func (t *Topic[T]) Subscribe(limit int, match func(T) bool) *Subscription[T] {
	s := &Subscription[T]{topic: t, match: match, limit: limit, ready: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.subs == nil {
		t.subs = map[*Subscription[T]]struct{}{}
	}
	t.subs[s] = struct{}{}
	return s
}

// Publish hands v to every reader it matches.
func (t *Topic[T]) Publish(v T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.subs {
		if s.match(v) {
			s.put(v)
		}
	}
}

func (s *Subscription[T]) put(v T) {
	s.mu.Lock()
	if len(s.queue) == s.limit {
		s.queue = append(s.queue[:0], s.queue[1:]...)
		s.gap = true
	}
	s.queue = append(s.queue, v)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Ready is readable when Take has something to give.
func (s *Subscription[T]) Ready() <-chan struct{} { return s.ready }

// Take is what came since the last call; gap says that older pieces are missing before it.
func (s *Subscription[T]) Take() (values []T, gap bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values, gap = s.queue, s.gap
	s.queue, s.gap = nil, false
	return values, gap
}

// Close ends the subscription.
func (s *Subscription[T]) Close() {
	s.topic.mu.Lock()
	defer s.topic.mu.Unlock()
	delete(s.topic.subs, s)
}
