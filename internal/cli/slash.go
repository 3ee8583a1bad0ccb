package cli

import (
	"context"
	"slices"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
	"taskdaemon/internal/typo"
)

// slashes are the words that act on a task wherever a person types to it (L-10), by name.
var slashes = map[string]func(ctx context.Context, a *app, ref, rest string) error{
	"/pause":  controlling("pause"),
	"/resume": controlling("resume"),
	"/cancel": controlling("cancel"),
	"/retry": func(ctx context.Context, a *app, ref, _ string) error {
		return a.command(ctx, ref, api.Command{Type: td.CmdRetry}, "asks the model again")
	},
	"/model": func(ctx context.Context, a *app, ref, rest string) error {
		if rest == "" {
			return td.Errorf(td.Invalid, "/model wants the name of a model or tier").WithHint("taskdaemon task send %s /model expert", ref)
		}
		return a.command(ctx, ref, api.Command{Type: td.CmdModel, Text: rest}, "uses "+plainLine(rest, 60)+" from the next call on")
	},
	"/mode": func(ctx context.Context, a *app, ref, rest string) error {
		return a.command(ctx, ref, api.Command{Type: td.CmdMode, Text: rest}, "is in permission mode "+plainLine(rest, 40)+" from the next call on")
	},
	"/context": func(ctx context.Context, a *app, ref, _ string) error {
		return runLoopInspect(ctx, loopInspectOptions{app: a, ref: ref, context: true})
	},
	"/compact": func(ctx context.Context, a *app, ref, _ string) error {
		return a.command(ctx, ref, api.Command{Type: td.CmdCompact}, "makes its conversation smaller before the next call")
	},
}

func controlling(name string) func(ctx context.Context, a *app, ref, rest string) error {
	return func(ctx context.Context, a *app, ref, rest string) error {
		return runControl(ctx, controlOptions{app: a, control: controls[name], ref: ref, words: rest})
	}
}

// isSlash reports whether text is a command: its first word has a slash in front and no other. A path has more.
func isSlash(text string) bool {
	verb, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	return strings.HasPrefix(verb, "/") && !strings.Contains(verb[1:], "/")
}

// slash carries out a command. One that is not known goes nowhere.
func (a *app) slash(ctx context.Context, ref, text string) error {
	verb, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	if act := slashes[verb]; act != nil {
		return act(ctx, a, ref, strings.TrimSpace(rest))
	}
	names := make([]string, 0, len(slashes))
	for name := range slashes {
		names = append(names, name)
	}
	slices.Sort(names)
	return td.Errorf(td.Invalid, "unknown command %s, did you mean %s? There are %s", plainLine(verb, 40), typo.Nearest(verb, names), strings.Join(names, ", ")).
		WithHint("taskdaemon task send --help")
}
