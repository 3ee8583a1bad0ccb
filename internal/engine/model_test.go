package engine

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/hook"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// A hook that sends one call to another provider's model gets that provider's encoding of the history.
func TestHookedModelHasItsOwnWire(t *testing.T) {
	asked := 0
	set := hooked(t, func(context.Context, hook.Payload, hook.Firing) (hook.Result, error) {
		if asked++; asked == 2 {
			return changes("model", `"other/model"`), nil
		}
		return hook.Result{}, nil
	}, hook.PreLLMCall)
	play(t, []any{calls("Look", `{}`), calls("Look", `{}`)}, func(_ *td.Spec, o *Options) { o.Hooks = set }, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		first, second, third := b.model.requests[0], b.model.requests[1], b.model.requests[2]
		if second.Model != "other/model" || first.Wire == second.Wire || first.Wire != third.Wire {
			t.Errorf("%s, %s and %s have the wires %p, %p and %p", first.Model, second.Model, third.Model, first.Wire, second.Wire, third.Wire)
		}
	})
}

// A call whose input had not begun when the token limit came has the input {}, which nobody asked for.
func TestCallWithoutItsInputIsDropped(t *testing.T) {
	for _, input := range []string{`{}`, ` { } `} {
		half := says("I look", td.MaxTokens)
		half.Message.Blocks = append(half.Message.Blocks, td.Block{Type: td.ToolUseBlock, ID: "u", Name: "Look", Input: json.RawMessage(input)})
		play(t, []any{half}, nil, func(b *bench, id td.TaskID) {
			b.until(id, td.Completed)
			if b.looked.Load() > 0 || strings.Contains(b.conversation(id), `"Look"`) {
				t.Errorf("with the input %q it ran: %s", input, b.conversation(id))
			}
			b.wantSaid(id, "cut short")
		})
	}
}

// The record of a call names the model that is called, also when another one is chosen while the first
// try hangs.
func TestRecordNamesTheModelCalled(t *testing.T) {
	silent := func(ctx context.Context) (llm.Response, error) {
		<-ctx.Done()
		return llm.Response{}, context.Cause(ctx)
	}
	play(t, []any{silent}, nil, func(b *bench, id td.TaskID) {
		time.Sleep(time.Second)
		err := b.journal.Post(b.t.Context(), id, td.Command{Type: td.CmdModel, Text: "small", Key: "k", At: time.Now().UTC().Round(0)})
		if err != nil {
			t.Fatal(err)
		}
		b.sched.Wake(b.t.Context(), b.task(id), true)
		b.until(id, td.Completed)
		var named []string
		for _, in := range intents(b, id) {
			if in.Kind == td.ModelStep {
				named = append(named, in.Name)
			}
		}
		if got := strings.Join(named, " "); got != "worker-model small-model" {
			t.Errorf("the records name %s", got)
		}
	})
}

// A hook is told the tier that the work was raised to.
func TestHookIsToldTheTierInUse(t *testing.T) {
	var tiers []td.Tier
	set := hooked(t, func(_ context.Context, p hook.Payload, _ hook.Firing) (hook.Result, error) {
		tiers = append(tiers, p.(hook.PreLLMCallPayload).Tier)
		return hook.Result{}, nil
	}, hook.PreLLMCall)
	play(t, []any{calls("Fail", `{"reason":"too hard"}`)}, func(_ *td.Spec, o *Options) { o.Hooks, o.Escalate = set, 1 }, func(b *bench, id td.TaskID) {
		b.until(id, td.Failed)
		b.post(id, td.Command{Type: td.CmdResume})
		b.until(id, td.Completed)
		if len(tiers) != 2 || tiers[0] != td.Worker || tiers[1] != td.Expert {
			t.Errorf("told %v", tiers)
		}
	})
}

// A task that ends without a summary still says how far it came.
func TestLastWords(t *testing.T) {
	half := calls("Fail", `{"reason":"no"}`)
	half.Message.Blocks = append([]td.Block{{Type: td.TextBlock, Text: "I got as far as the parser."}}, half.Message.Blocks...)
	play(t, []any{half}, nil, func(b *bench, id td.TaskID) {
		if got := b.until(id, td.Failed).LastText; got != "I got as far as the parser." {
			t.Errorf("its last words are %q", got)
		}
	})
}

func intents(b *bench, id td.TaskID) (out []td.Intent) {
	b.t.Helper()
	for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		if in, is := ev.Body.(td.StepIntended); is {
			out = append(out, in.Intent)
		}
	}
	return out
}
