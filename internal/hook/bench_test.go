package hook

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkCommand measures a hook under the shim, from its payload to its result, and its wrapper
// alone, beside the bare execution of the same command, turn by turn, so that the ratios of the
// medians mean something on any machine.
func BenchmarkCommand(b *testing.B) {
	s := at(PreToolUse)
	s.Command = `cat >/dev/null; echo '{"decision":"allow"}'`
	sp := spool(b)
	sp.Warm = 2
	sp.Preheat()
	root, cwd := b.TempDir(), b.TempDir()
	var bare, wrapped, whole []time.Duration
	for b.Loop() {
		begin := time.Now()
		cmd := exec.Command("/bin/sh", "-c", s.Command)
		cmd.Dir = cwd
		if _, err := cmd.Output(); err != nil {
			b.Fatal(err)
		}
		bare = append(bare, time.Since(begin))

		dir := filepath.Join(root, fmt.Sprintf("w%d", len(bare)))
		begin = time.Now()
		stdin, err := Encode(samplePreToolUse)
		if err != nil {
			b.Fatal(err)
		}
		if err := Prepare(dir, stdin); err != nil {
			b.Fatal(err)
		}
		if r := Interpret(s, samplePreToolUse, run(b, "/bin/sh", dir, s.Command)); r.Permission != Allow {
			b.Fatalf("%+v", r)
		}
		wrapped = append(wrapped, time.Since(begin))

		name := fmt.Sprintf("h%d", len(bare))
		dir = filepath.Join(root, name)
		begin = time.Now()
		if stdin, err = Encode(samplePreToolUse); err != nil {
			b.Fatal(err)
		}
		if err := Prepare(dir, stdin); err != nil {
			b.Fatal(err)
		}
		proc, err := sp.Start(b.Context(), name, command(dir, cwd, s))
		if err != nil {
			b.Fatal(err)
		}
		if r := answer(b, proc, dir, s, samplePreToolUse); r.Permission != Allow {
			b.Fatalf("%+v", r)
		}
		whole = append(whole, time.Since(begin))
	}
	bareMedian := median(bare)
	b.ReportMetric(float64(bareMedian.Microseconds()), "bare-µs")
	b.ReportMetric(float64(median(wrapped))/float64(bareMedian), "wrapped/bare")
	b.ReportMetric(float64(median(whole).Microseconds()), "shim-µs")
	b.ReportMetric(float64(median(whole))/float64(bareMedian), "shim/bare")
}

// BenchmarkFire is what a loop pays at a point without hooks, and with ten that match and say nothing.
func BenchmarkFire(b *testing.B) {
	for _, n := range []int{0, 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var specs []Spec
			for i := range n {
				specs = append(specs, Spec{Point: PreToolUse, Matcher: "Bash|Edit", Command: fmt.Sprint("true ", i)})
			}
			s, err := New(specs, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				_, _, err := Fire(b.Context(), s, samplePreToolUse, func(context.Context, Spec, PreToolUsePayload) (Result, error) {
					return Result{}, nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkInterpret is the reading of a decision that changes the input.
func BenchmarkInterpret(b *testing.B) {
	s, o := at(PreToolUse), Output{Stdout: []byte(echo(PreToolUse, "go test", "go test -v"))}
	b.ReportAllocs()
	for b.Loop() {
		if r := Interpret(s, samplePreToolUse, o); len(r.Changes) != 1 {
			b.Fatalf("%+v", r)
		}
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
