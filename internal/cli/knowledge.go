package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/daemon"
	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/memory"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

func newKnowledgeCmd(a *app) *cobra.Command {
	return group("knowledge", "What tasks learned in this project", "taskdaemon knowledge search config parser",
		newKnowledgeListCmd(a), newKnowledgeSearchCmd(a), newKnowledgeAddCmd(a), newKnowledgeRmCmd(a))
}

// knowledgeOptions are what the commands on a project's learnings share. They work on the project's files
// themselves; no daemon is needed.
type knowledgeOptions struct {
	app   *app
	dir   string
	limit int
	words []string
	tags  []string
	kind  string
	files []string
}

func (o *knowledgeOptions) command(cmd *cobra.Command, run func(ctx context.Context, o knowledgeOptions) error) *cobra.Command {
	cmd.Annotations = exits(exitOK, exitFailed, exitUsage, exitNotFound, exitConflict, exitLocked, exitStorage)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.words = args
		var err error
		if o.dir, err = folderOr(o.dir); err != nil {
			return err
		}
		return run(cmd.Context(), *o)
	}
	cmd.Flags().StringVarP(&o.dir, "dir", "C", "", "a folder of the project; the present one when not given")
	return cmd
}

// use lends the learnings, and the project's folder they cite files of.
func (o knowledgeOptions) use(do func(s *memory.Store, tree *beneath.Folder) error) error {
	tree, err := beneath.OpenResolved(knowledge.Top(o.dir))
	if err != nil {
		return td.Errorf(td.Unavailable, "open project: %w", err)
	}
	defer func() { _ = tree.Close() }()
	secrets := redact.New()
	if c, _, err := o.app.loadConfig(nil); err == nil {
		secrets = daemon.Secrets(c, o.app.getenv)
	}
	shelf := knowledge.New("", secrets)
	defer func() { _ = shelf.Close() }()
	return shelf.Use(o.dir, func(s *memory.Store) error { return do(s, tree) })
}

func newKnowledgeListCmd(a *app) *cobra.Command {
	o := &knowledgeOptions{app: a}
	cmd := o.command(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List what was learned, the newest first", Args: args(cobra.NoArgs, "no arguments"),
		Long: `List what was learned in this project, the newest first. A learning is stale when a file it cites has changed
since: no task is told it any more. Files that cannot be read are named.`,
		Example: "  taskdaemon knowledge list --kind decision",
	}, runKnowledgeList)
	cmd.Flags().StringVar(&o.kind, "kind", "", "only of this kind: learning or decision")
	return cmd
}

func runKnowledgeList(ctx context.Context, o knowledgeOptions) error {
	if _, err := td.LearningKindOf(o.kind); err != nil {
		return err
	}
	return o.use(func(s *memory.Store, tree *beneath.Folder) error {
		all, problems, err := s.List(ctx)
		if err != nil {
			return err
		}
		matches := make([]memory.Match, 0, len(all))
		for _, l := range all {
			if o.kind != "" && l.Kind != td.LearningKind(o.kind) {
				continue
			}
			matches = append(matches, memory.Match{Learning: l, Stale: memory.Stale(tree, l)})
		}
		for _, p := range problems {
			o.app.say("%s %s", o.app.talk.warn("cannot be read:"), plainLine(p.Error(), 300))
		}
		if o.app.json {
			if problems == nil {
				problems = []memory.Problem{}
			}
			return o.app.printJSON(map[string]any{"learnings": matches, "problems": problems})
		}
		return o.app.printLearnings(matches)
	})
}

func newKnowledgeSearchCmd(a *app) *cobra.Command {
	o := &knowledgeOptions{app: a}
	cmd := o.command(&cobra.Command{
		Use: "search <words>", Short: "Find learnings, the best first", Args: args(cobra.MinimumNArgs(1), "words to look for"),
		Long:    "Find learnings of this project by words in them, the best first. Stale ones are marked.",
		Example: "  taskdaemon knowledge search config parser",
	}, runKnowledgeSearch)
	cmd.Flags().IntVarP(&o.limit, "limit", "n", 10, "at most so many")
	return cmd
}

func runKnowledgeSearch(ctx context.Context, o knowledgeOptions) error {
	return o.use(func(s *memory.Store, tree *beneath.Folder) error {
		found, err := s.Search(ctx, tree, strings.Join(o.words, " "), o.limit)
		if err != nil {
			return err
		}
		if o.app.json {
			if found == nil {
				found = []memory.Match{}
			}
			return o.app.printJSON(found)
		}
		return o.app.printLearnings(found)
	})
}

// printLearnings prints learnings for people.
func (a *app) printLearnings(all []memory.Match) error {
	if len(all) == 0 {
		a.say(`none; next: taskdaemon knowledge add "title" "what was learned"`)
		return nil
	}
	for i, m := range all {
		head := m.ID
		if m.Kind == td.KindDecision {
			head += "  decision"
		}
		if len(m.Tags) > 0 {
			head += "  [" + strings.Join(m.Tags, ", ") + "]"
		}
		head = a.style.bold(plainLine(head, 200))
		if len(m.Sources) > 0 {
			head += a.style.dim("  from " + plainLine(strings.Join(m.Sources, ", "), 80))
		}
		if len(m.Stale) > 0 {
			head += "  " + a.style.warn("stale: "+plainLine(strings.Join(m.Stale, ", "), 120)+" changed")
		}
		gap := "\n"
		if i == 0 {
			gap = ""
		}
		text := quoted(strings.TrimSpace(m.Text))
		if _, err := fmt.Fprintf(a.stdout, "%s%s\n  %s\n  %s\n", gap, head, plainLine(m.Title, 200), text); err != nil {
			return written(err)
		}
	}
	return nil
}

func newKnowledgeAddCmd(a *app) *cobra.Command {
	o := &knowledgeOptions{app: a}
	cmd := o.command(&cobra.Command{
		Use: "add <title> <text>", Short: "Add a learning", Args: args(cobra.ExactArgs(2), "a title and a text"),
		Long: `Add a learning to this project, as a file in .taskdaemon/knowledge, and print its id. One that says the same as
another is merged into it; the same again changes nothing. A decision is something settled that later work keeps to.`,
		Example: `  taskdaemon knowledge add "Config parser" "It wants arrays, not objects." --file config.go`,
	}, runKnowledgeAdd)
	cmd.Flags().StringVar(&o.kind, "kind", string(td.KindLearning), "learning or decision")
	cmd.Flags().StringSliceVar(&o.tags, "tag", nil, "words to file it under")
	cmd.Flags().StringSliceVar(&o.files, "file", nil, "files it is about: it is stale once one of them changes")
	return cmd
}

func runKnowledgeAdd(ctx context.Context, o knowledgeOptions) error {
	kind, err := td.LearningKindOf(o.kind)
	if err != nil {
		return err
	}
	files, missing, err := knowledge.Cite(o.dir, o.files)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return td.Errorf(td.NotFound, "%s: no such file in the project", strings.Join(missing, ", "))
	}
	return o.use(func(s *memory.Store, _ *beneath.Folder) error {
		l, merged, err := s.Add(ctx, memory.Learning{Kind: kind, Title: o.words[0], Text: o.words[1], Tags: o.tags, Files: files})
		if err != nil {
			return err
		}
		if o.app.json {
			return o.app.printJSON(l)
		}
		if merged {
			o.app.say("it is part of one that was there")
		}
		_, err = fmt.Fprintln(o.app.stdout, l.ID)
		return written(err)
	})
}

func newKnowledgeRmCmd(a *app) *cobra.Command {
	o := &knowledgeOptions{app: a}
	return o.command(&cobra.Command{
		Use: "rm <id>", Short: "Remove a learning", Args: args(cobra.ExactArgs(1), "the id of a learning"),
		Long:    "Remove a learning by its id, or by the beginning of it, and print the id. A file that cannot be read goes, too.",
		Example: "  taskdaemon knowledge rm config-parser-1f2e3d4c",
	}, runKnowledgeRm)
}

func runKnowledgeRm(ctx context.Context, o knowledgeOptions) error {
	return o.use(func(s *memory.Store, _ *beneath.Folder) error {
		id, err := s.Remove(ctx, o.words[0])
		if err != nil {
			return err
		}
		if o.app.json {
			return o.app.printJSON(map[string]string{"removed": id})
		}
		_, err = fmt.Fprintln(o.app.stdout, id)
		return written(err)
	})
}
