package bench

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// figures is what was measured so far, in order.
var figures table

type table struct{ rows []row }

// row is one figure: the ratio to what was measured beside it, the goal, and the absolute numbers.
type row struct {
	name  string
	ratio string
	goal  string
	seen  string
}

func (t *table) add(name, ratio, goal, seen string) {
	t.rows = append(t.rows, row{name, ratio, goal, seen})
}

func (t *table) print(w io.Writer, dir string) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n\n", machine(dir))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "figure\tratio\tgoal\tmeasured")
	for _, r := range t.rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", r.name, r.ratio, r.goal, r.seen)
	}
	_ = tw.Flush() // to a terminal or a pipe: whoever closed it does not read the table
}

// goal says what was wanted and whether it was reached.
func goal(want string, met bool) string {
	if met {
		return want + ": met"
	}
	return want + ": MISSED"
}

// machine is this machine in words.
func machine(dir string) string {
	var uts unix.Utsname
	_ = unix.Uname(&uts) // without it the words are only fewer
	return fmt.Sprintf("%d cores (%s), %s, Linux %s, %s, load %s", runtime.NumCPU(), cpu(), filesystem(dir),
		unix.ByteSliceToString(uts.Release[:]), runtime.Version(), load())
}

func cpu() string {
	raw, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(raw)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, " \t:"))
		}
	}
	return runtime.GOARCH
}

func filesystem(dir string) string {
	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.TMPFS_MAGIC: "tmpfs (NOT a disk)", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.XFS_SUPER_MAGIC: "xfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "unknown file system"
	}
	if name, ok := names[st.Type]; ok {
		return name
	}
	return fmt.Sprintf("file system %#x", st.Type)
}

// ticks are of all processors since the machine began.
type ticks struct{ all, stolen uint64 }

// stolen counts the time that the host gave to others while this machine wanted it.
func stolen() (t ticks) {
	raw, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(raw), "\n")
	for i, f := range strings.Fields(line) {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil || i > 8 { // guests are counted among the others
			continue
		}
		t.all += n
		if i == 8 {
			t.stolen = n
		}
	}
	return t
}

// since is the part of the time that was stolen.
func (t ticks) since(before ticks) float64 {
	return float64(t.stolen-before.stolen) / float64(max(t.all-before.all, 1))
}

// load is the load average of the last minute.
func load() string {
	raw, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(raw), " ")
	return one
}

// sample is a set of durations.
type sample []time.Duration

// at is the quantile q, in milliseconds.
func (s sample) at(q float64) float64 {
	sorted := slices.Sorted(slices.Values(s))
	return float64(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]) / float64(time.Millisecond)
}

// both is p50 and p95 in words.
func (s sample) both() string { return fmt.Sprintf("%.2f / %.2f ms", s.at(0.5), s.at(0.95)) }

// median is the middle of the values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// report hands the ratio and the numbers behind it to the benchmark's own line. The unit of a ratio begins
// with a slash ("per"), which also makes the line begin with it.
func report(b *testing.B, metrics map[string]float64) {
	b.ReportMetric(0, "ns/op") // a whole run of the benchmark, which says nothing
	for unit, v := range metrics {
		b.ReportMetric(v, unit)
	}
}
