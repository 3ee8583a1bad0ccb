package window

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// context is a call of about 150k tokens as it comes up in a long run: rules, tools, and many exchanges with
// results of all sizes.
func bigContext() (system string, tools []byte, msgs []td.Message, size int) {
	source := strings.Repeat("func (s *Store) Append(ctx context.Context, ev td.Event) error {\n\treturn s.write(ctx, ev) // as it stands\n}\n\n", 60)
	system = strings.Repeat("Look before you change: read the files that matter, search instead of guessing.\n", 100)
	tools = []byte(strings.Repeat(`{"name":"Read","description":"Reads a file","schema":{"type":"object"}},`, 100))
	var texts []string
	for i := range 70 {
		texts = append(texts, source[:len(source)*(i%7+1)/7])
	}
	msgs = run(texts...)
	size = len(system) + len(tools)
	for _, m := range msgs {
		for _, b := range m.Blocks {
			size += len(b.Text) + len(b.Input)
		}
	}
	return system, tools, msgs, size
}

// plainCopy is the lower bound that the others are measured against: every byte of the context once.
func plainCopy(dst []byte, system string, tools []byte, msgs []td.Message) []byte {
	dst = append(append(dst[:0], system...), tools...)
	for i := range msgs {
		for j := range msgs[i].Blocks {
			dst = append(append(dst, msgs[i].Blocks[j].Text...), msgs[i].Blocks[j].Input...)
		}
	}
	return dst
}

// BenchmarkContext measures what each call to a model costs here, for 150k tokens: counting, planning when it
// fits, and compacting when it does not. x-copy is the ratio to a plain copy of the bytes in the same run, best against
// best, so that a busy machine does not show in it.
func BenchmarkContext(b *testing.B) {
	system, tools, msgs, size := bigContext()
	fixed := Count(system, tools, nil)
	total := Count(system, tools, msgs).Total()
	if total < 140_000 || total > 160_000 {
		b.Fatalf("%d tokens", total)
	}
	dst := make([]byte, 0, size)
	copied := time.Duration(1<<63 - 1)
	for range 200 {
		start := time.Now()
		dst = plainCopy(dst, system, tools, msgs)
		copied = min(copied, time.Since(start))
	}
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"copy", func() error { dst = plainCopy(dst, system, tools, msgs); return nil }},
		{"count", func() error {
			if Count(system, tools, msgs).Total() != total {
				return fmt.Errorf("counted differently")
			}
			return nil
		}},
		{"fits", func() error { return expect(Plan(msgs, fixed, Budget{200_000, 16_384, 0.9}, Options{}), Fits) }},
		{"truncate", func() error {
			d := Plan(msgs, fixed, Budget{Window: total - 1}, Options{})
			if err := expect(d, Compact); err != nil {
				return err
			}
			_, err := Apply(msgs, d.Compaction)
			return err
		}},
		{"summarise", func() error {
			d := Plan(msgs, fixed, Budget{Window: total - 1}, Options{Floor: 1 << 20})
			if err := expect(d, Summarise); err != nil {
				return err
			}
			compaction, err := d.Summary.Compaction("Read a lot of code.")
			if err == nil {
				_, err = Apply(msgs, compaction)
			}
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			best := time.Duration(1<<63 - 1)
			for b.Loop() {
				start := time.Now()
				if err := c.do(); err != nil {
					b.Fatal(err)
				}
				best = min(best, time.Since(start))
			}
			b.ReportMetric(float64(best.Nanoseconds()), "best-ns")
			b.ReportMetric(float64(best)/float64(copied), "x-copy")
		})
	}
}

func expect(d Decision, want Action) error {
	if d.Do != want {
		return fmt.Errorf("%s, want %s: %w", d.Do, want, d.Err)
	}
	return nil
}
