package bus

import (
	"slices"
	"testing"
)

func TestTopicDropsTheOldestForASlowReader(t *testing.T) {
	var topic Topic[int]
	slow := topic.Subscribe(3, func(int) bool { return true })
	even := topic.Subscribe(100, func(n int) bool { return n%2 == 0 })
	for i := range 10 {
		topic.Publish(i)
	}
	got, gap := slow.Take()
	if !slices.Equal(got, []int{7, 8, 9}) || !gap {
		t.Errorf("slow reader got %v, gap %v", got, gap)
	}
	got, gap = even.Take()
	if !slices.Equal(got, []int{0, 2, 4, 6, 8}) || gap {
		t.Errorf("matching reader got %v, gap %v", got, gap)
	}
	if got, gap = slow.Take(); len(got) != 0 || gap {
		t.Errorf("taken twice: %v, gap %v", got, gap)
	}
	slow.Close()
	topic.Publish(11)
	if got, _ := slow.Take(); len(got) != 0 {
		t.Errorf("a closed reader got %v", got)
	}
}

func TestTopicWakesItsReader(t *testing.T) {
	var topic Topic[string]
	s := topic.Subscribe(1, func(string) bool { return true })
	defer s.Close()
	topic.Publish("hello")
	<-s.Ready()
	if got, _ := s.Take(); len(got) != 1 || got[0] != "hello" {
		t.Errorf("got %v", got)
	}
}
