package builtin

import (
	"fmt"
	"strings"
	"testing"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

func TestBackgroundJob(t *testing.T) {
	b := newBench(t)
	res := b.ok("Bash", args{"command": "echo ready; until [ -e go ]; do sleep 0.01; done; echo done; exit 4", "background": true})
	if res.Job == nil || res.Job.ID != "job-1.1" || res.Job.Spool != tool.SpoolName(b.env.Task, b.env.Step) {
		t.Fatalf("got %+v", res)
	}
	id := string(res.Job.ID)
	var out td.ToolResult
	eventually(t, "it is ready", func() bool {
		out = b.ok("BashOutput", args{"job": id})
		return strings.Contains(out.Content, "ready\n")
	})
	if want := fmt.Sprintf("ready\n[%s is running; go on with offset 6]", id); out.Content != want || len(out.Killed) > 0 {
		t.Errorf("got %+v", out)
	}
	b.put("go", "")
	eventually(t, "it has ended", func() bool {
		out = b.do("BashOutput", args{"job": id, "offset": 6})
		return strings.Contains(out.Content, "has ended")
	})
	if want := fmt.Sprintf("done\n[%s has ended: exit code 4]", id); out.Content != want || !out.IsError || len(out.Killed) != 1 {
		t.Errorf("got %+v", out)
	}
	b.bad("BashOutput", args{"job": "job-9"}, "the jobs are: "+id)
	b.env.Jobs = nil
	b.bad("BashOutput", args{"job": id}, "no background job is running")
}

func TestJobOutputGoesOn(t *testing.T) {
	b := newBench(t)
	id := string(b.ok("Bash", args{"command": "seq 1 20000", "background": true}).Job.ID)
	eventually(t, "it has ended", func() bool { return strings.Contains(b.ok("BashOutput", args{"job": id}).Content, "has ended") })
	res := b.ok("BashOutput", args{"job": id})
	if !strings.HasSuffix(res.Content, "has ended; there is more output, go on with offset 30000]") || len(res.Killed) > 0 {
		t.Fatalf("got …%s", res.Content[len(res.Content)-200:])
	}
	var all strings.Builder
	for offset := 0; len(res.Killed) == 0; offset += 30000 {
		res = b.ok("BashOutput", args{"job": id, "offset": offset})
		all.WriteString(res.Content)
	}
	if !strings.HasSuffix(all.String(), "20000\n["+id+" has ended: exit code 0]") {
		t.Errorf("got …%s", all.String()[all.Len()-100:])
	}
}

func TestJobKill(t *testing.T) {
	b := newBench(t)
	in := args{"command": "trap '' TERM; setsid sleep 60 & sleep 60", "background": true}
	job := b.ok("Bash", in).Job
	kill := args{"job": job.ID}
	call := b.prepare("BashKill", kill)
	if res := b.resolve("BashKill", kill, call); res.State != tool.NotDone || call.Effect != td.Keyed {
		t.Errorf("before the kill: %+v", res)
	}
	ran, err := call.Run(t.Context())
	if err != nil || len(ran.Killed) != 1 || ran.Killed[0] != job.ID {
		t.Fatalf("kill: %+v, %v", ran, err)
	}
	if res := b.resolve("BashKill", kill, call); res.State != tool.Done || res.Via != td.Probed || res.Result.Content != ran.Content {
		t.Errorf("after the kill: %+v", res)
	}
	if res := b.do("BashOutput", args{"job": job.ID}); !strings.Contains(res.Content, "it was killed") {
		t.Errorf("output: %+v", res)
	}
}

func TestJobIsAdopted(t *testing.T) {
	b := newBench(t)
	in := args{"command": "sleep 60", "background": true}
	call := b.prepare("Bash", in)
	inFlight(b, call)
	res := b.resolve("Bash", in, call)
	if res.State != tool.Done || res.Via != td.Adopted || res.Result.Job == nil {
		t.Fatalf("got %+v", res)
	}
	b.env.Jobs = []td.Job{*res.Result.Job}
	if out := b.ok("BashOutput", args{"job": res.Result.Job.ID}); !strings.Contains(out.Content, "is running") {
		t.Errorf("got %+v", out)
	}
	b.ok("BashKill", args{"job": res.Result.Job.ID})
}

func TestJobsOfOneTurnDiffer(t *testing.T) {
	b := newBench(t)
	first := jobID(b.env)
	b.env.Step = "1.2"
	if second := jobID(b.env); first == second {
		t.Errorf("both are %s", first)
	}
}
