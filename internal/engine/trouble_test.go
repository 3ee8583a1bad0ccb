package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// What the machine lacks is no outcome of a step: the task rests, and the step is made when there is room again. The model hears nothing of it.
func TestOwnTroubleIsNoOutcome(t *testing.T) {
	for _, lacks := range []error{syscall.ENOSPC, syscall.EMFILE, disk.Own(syscall.EIO), fmt.Errorf("start a process: %w", syscall.EAGAIN)} {
		t.Run(lacks.Error(), func(t *testing.T) {
			tries := 0
			look := tool.Tool{Name: "Peek", Prepare: func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
				return tool.Call{Effect: td.Pure, Run: func(context.Context) (td.ToolResult, error) {
					if tries++; tries < 3 {
						return td.ToolResult{}, fmt.Errorf("open result.json: %w", lacks)
					}
					return td.ToolResult{Content: "seen at last"}, nil
				}}, nil
			}}
			play(t, []any{calls("Peek", `{}`)}, func(s *td.Spec, o *Options) {
				s.Yes, o.Tools = true, o.Tools.With(look)
			}, func(b *bench, id td.TaskID) {
				if got := b.until(id, td.Blocked); !strings.Contains(got.Status.Reason+got.Status.Blocked.Cause, lacks.Error()) {
					t.Errorf("it is blocked, and not said why: %+v", got.Status)
				}
				b.until(id, td.Completed)
				if said := b.conversation(id); strings.Contains(said, "result.json") || !strings.Contains(said, "seen at last") {
					t.Errorf("the model heard:\n%s", said)
				}
				if tries != 3 {
					t.Errorf("it was tried %d times", tries)
				}
			})
		})
	}
}
