package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/fence"
	"taskdaemon/internal/td"
)

func newTaskCmd(a *app) *cobra.Command {
	cmd := group("task", "Add tasks, plan them and talk to them", `taskdaemon task add "make the failing test pass" --attach`,
		newTaskAddCmd(a), newTaskListCmd(a), newTaskShowCmd(a), newTaskSendCmd(a), newTaskAnswerCmd(a),
		newControlCmd(a, "task ", controls["pause"]), newControlCmd(a, "task ", controls["resume"]), newControlCmd(a, "task ", controls["cancel"]),
		newTaskTreeCmd(a), newTaskReadyCmd(a), newTaskBlockedCmd(a), newTaskDepsCmd(a), newTaskUpdateCmd(a), newTaskLogCmd(a), newTaskDeleteCmd(a))
	for _, c := range closings {
		cmd.AddCommand(newTaskCloseCmd(a, c))
	}
	return cmd
}

// stateWords is a task's state in a word or two.
func stateWords(t td.Task) string {
	switch st := t.Status; {
	case st.Running != nil && t.Retrying != nil:
		return "running: retrying"
	case st.Running != nil:
		return "running: " + string(st.Running.Phase)
	case st.Blocked != nil && st.Blocked.Outage != nil:
		return "blocked: retrying"
	case st.Waiting != nil:
		return "waiting: " + string(st.Waiting.Kind)
	default:
		return string(st.State)
	}
}

// printTasks writes the table of tasks.
func (a *app) printTasks(tasks []td.Task) error {
	rows := [][]string{{"TASK", "STATE", "AGE", "TURNS", "COST", "TITLE"}}
	for _, t := range tasks {
		rows = append(rows, []string{
			t.Handle, stateWords(t), age(a.now().Sub(t.CreatedAt)), fmt.Sprint(t.Turns),
			money(t.Booked()), a.style.state(t.Status.State, plainLine(t.Title, 60)),
		})
	}
	return table(a.stdout, rows)
}

// printRequest writes a question and what to type to answer it.
func (a *app) printRequest(w io.Writer, s style, t td.Task, r td.Request) {
	fmt.Fprintf(w, "%s %s\n", s.warn("? "+r.Handle()), quoted(r.Question()))
	if !strings.Contains(r.Prompt, strings.TrimSpace(r.Detail)) {
		for _, line := range plainClip(r.Detail, 12, 4) {
			fmt.Fprintln(w, margin+line)
		}
	}
	if r.Diff != "" {
		for _, line := range plainClip(r.Diff, 60, 20) {
			fmt.Fprintln(w, margin+line)
		}
	}
	for _, way := range howToAnswer(t, r) {
		fmt.Fprintf(w, "  %s %s\n", s.dim("→"), a.typeable(way.line))
		if way.keeps != "" {
			fmt.Fprintf(w, "    %s %s\n", s.dim("keeps:"), way.keeps)
		}
	}
	if at := r.ExpiresAt(); !at.IsZero() {
		left := at.Sub(a.now()).Round(time.Second)
		fmt.Fprintf(w, "  %s\n", s.dim(fmt.Sprintf("denied automatically in %s", max(left, 0))))
	}
}

// way is a line that answers a request. Nothing but what is to be typed stands in it: not every shell takes what follows a # for a comment.
type way struct {
	line  string
	keeps string // the rules that it makes
}

// howToAnswer is what a person can type.
func howToAnswer(t td.Task, r td.Request) []way {
	answer := td.Typed("taskdaemon task answer %s ", r.Handle())
	yesOrNo := []way{{line: answer + "yes"}, {line: answer + `no "why not"`}}
	switch {
	case r.Kind == td.AskConversation:
		return []way{{line: td.Typed(`taskdaemon task send %s "…"`, t.Handle)}}
	case r.Kind == td.AskPermission:
		for i, o := range r.Offers {
			line := answer + "always"
			if i > 0 {
				line += fmt.Sprintf(" %d", i+1)
			}
			yesOrNo = append(yesOrNo, way{line, plainLine(fence.Spell(strings.Join(o.Rules, ", ")), 80)})
		}
		return yesOrNo
	case len(r.Options) > 0:
		var ways []way
		for _, o := range r.Options {
			word := plainLine(o, 60)
			if strings.HasPrefix(word, "-") { // else it would be a flag
				ways = append(ways, way{line: td.Typed("%s-- %s", td.Words(answer), word)})
				continue
			}
			ways = append(ways, way{line: td.Typed("%s%s", td.Words(answer), word)})
		}
		return ways
	default:
		return []way{{line: answer + `"…"`}}
	}
}
