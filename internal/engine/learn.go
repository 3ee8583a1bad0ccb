package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"taskdaemon/internal/durable"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/memory"
	"taskdaemon/internal/td"
)

var (
	fpBeforeLearn = failpoint.New("engine.learn.before_add")
	fpLearned     = failpoint.New("engine.learn.added")
)

// Extract says what becomes of passages that may hold a learning when a task ends.
type Extract string

// The ways.
const (
	ExtractNothing Extract = "off"
	ExtractAll     Extract = "keep"   // each is kept as it stands
	ExtractRefined Extract = "refine" // the small model makes learnings of them, or none
)

const (
	mostLearned = 5 // learnings that are kept of one task
	learnWithin = time.Minute
	refineLimit = 2000 // tokens of the small model's answer
)

var errLearnedTooLong = errors.New("learning took too long")

// learn keeps what the conversation gives away, before the task ends (L-13). Nothing that goes wrong with
// it is the task's failure; an error is the run's own.
func (r *run) learn(ctx context.Context) error {
	t, turn := r.log.Task(), r.log.Transcript().Turn
	if r.mode(t) == td.PlanMode { // nothing is written into the checkout
		return nil
	}
	if r.learned == turn || r.ctl == nil || r.Knowledge == nil || r.Extract == ExtractNothing || r.Extract == "" ||
		len(t.Tools) > 0 && !slices.Contains(t.Tools, "Learn") {
		return nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, learnWithin, errLearnedTooLong)
	defer cancel()
	found, err := r.findLearnings(limited)
	for i := 0; err == nil && i < min(len(found), mostLearned); i++ {
		err = r.keepFound(limited, td.StepKey(fmt.Sprintf("%s.%d", r.log.Transcript().LearnKey(), i)), found[i], "conversation")
	}
	if errors.Is(err, errLearnedTooLong) && ctx.Err() == nil {
		r.Log.Warn("learn", "task", t.Handle, "err", err)
		err = nil
	}
	if err == nil {
		r.learned = turn
	}
	return err
}

// findLearnings makes learnings of what the conversation gives away, the same ones in every life.
func (r *run) findLearnings(ctx context.Context) ([]memory.Learning, error) {
	script, t := r.log.Transcript(), r.log.Task()
	passages := r.Knowledge.Candidates(script.Messages)
	if len(passages) == 0 {
		return nil, nil
	}
	var found []memory.Learning
	if r.Extract == ExtractAll {
		for _, p := range passages {
			found = append(found, p.Learning(t.Handle, r.log.Now()))
		}
		return found, nil
	}
	answer, err := r.refine(ctx, script.LearnKey(), passages)
	if err != nil || answer == "" {
		return nil, err
	}
	if found, err = memory.ParseRefined(answer); err != nil {
		r.Log.Warn("refine learnings", "task", t.Handle, "err", err)
		return nil, nil
	}
	for i := range found {
		found[i].Sources, found[i].CreatedAt = []string{t.Handle}, r.log.Now()
	}
	return found, nil
}

// refine asks the small model, once: what it said, or that it said nothing, is on record.
func (r *run) refine(ctx context.Context, key td.StepKey, passages []memory.Candidate) (string, error) {
	if out := r.log.Transcript().Learning(key).Outcome; out != nil {
		if out.Side == nil {
			return "", nil // it was stopped on the way
		}
		return out.Side.Text, nil
	}
	answer, err := r.side(ctx, key, td.CauseLearning, refineSystem, memory.RefinePrompt(passages), refineLimit)
	var none *noAnswerError
	if errors.As(err, &none) || td.IsKind(err, td.OverBudget) {
		return "", nil // the task's end does not wait for it
	}
	return answer, err
}

const refineSystem = "You write down what a coding agent learned, for agents that work on the same project later."

// lesson is a learning and where it is kept: the evidence of the step that keeps it.
type lesson struct {
	memory.Learning
	Store string `json:"store,omitempty"` // the folder of the project, if it is not the task's own
}

// keep adds one learning as a step of its own.
func (r *run) keep(ctx context.Context, key td.StepKey, l lesson) error {
	t, known := r.log.Task(), r.log.Transcript().Learning(key)
	if known.Outcome != nil {
		return nil
	}
	step, done := r.ctl.Step(ctx)
	defer done()
	attempt := 0
	if known.Intent != nil {
		settled, err := r.log.Settle(step, *known.Intent, r.foundKept, nil)
		if err != nil || settled {
			return err
		}
		attempt = known.Intent.Attempt + 1
	}
	var paths []string
	for _, f := range l.Files {
		paths = append(paths, f.Path)
	}
	cited, _, err := knowledge.Cite(t.Dir, paths)
	if err != nil {
		r.Log.Warn("cite files", "task", t.Handle, "err", err)
	}
	l.Files = cited
	evidence, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode evidence: %w", err)
	}
	_, err = r.log.Do(step, durable.Step{
		Intent: td.Intent{Key: key, Kind: td.LearnStep, Name: "Learn", Effect: td.Keyed, Attempt: attempt, Evidence: evidence},
		Run: func(ctx context.Context) (out td.Outcome, _ error) {
			err := r.Knowledge.Use(cmp.Or(l.Store, t.Home()), func(s *memory.Store) error {
				fpBeforeLearn.Hit()
				kept, _, err := s.Add(ctx, l.Learning)
				fpLearned.Hit()
				out = keptOutcome(lesson{kept, l.Store})
				return err
			})
			if cause := context.Cause(ctx); err != nil && cause != nil {
				return td.Outcome{}, cause
			}
			if err != nil {
				r.Log.Warn("keep learning", "task", t.Handle, "err", err)
				return toolError(err.Error()), nil
			}
			return out, nil
		},
	})
	return err
}

func keptOutcome(l lesson) td.Outcome {
	return td.Outcome{Tool: &td.ToolResult{Content: "Kept in " + filepath.Join(l.Store, knowledge.File(l.ID)) + "."}}
}

// foundKept looks whether a learning that was being kept when the daemon died is there. When that cannot
// be told it is added again, which is harmless.
func (r *run) foundKept(ctx context.Context, prior td.Intent) (res durable.Resolution, err error) {
	var l lesson
	if err := json.Unmarshal(prior.Evidence, &l); err != nil {
		return durable.Resolution{}, nil
	}
	err = r.Knowledge.Use(cmp.Or(l.Store, r.log.Task().Home()), func(s *memory.Store) error {
		kept, there, err := s.Probe(ctx, l.Learning)
		if there {
			res = durable.Resolution{State: durable.Done, Outcome: keptOutcome(lesson{kept, l.Store})}
			res.Outcome.Via = td.Probed
		}
		return err
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return durable.Resolution{}, cause
	}
	return res, nil
}
