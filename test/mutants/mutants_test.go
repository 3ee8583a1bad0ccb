// Package mutants plants one fault after the other into a copy of the sources, each of a kind that would
// break a promise, and sees to it that the suites notice. A suite that stays green on a mutant is blind.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is one fault: in file, old becomes new, and the tests named must fail.
type mutant struct {
	name     string
	file     string
	old, new string
	tests    []string // arguments of go test
}

var (
	sim     = []string{"./test/sim", "-args", "-sim.seeds=300"}
	engine  = []string{"./internal/engine"}
	secrets = []string{"./internal/engine", "-run", "TestHooksHear"}
	budgets = []string{"./internal/engine", "-run", "TestBudget"}
	memory  = []string{"./internal/store/mem", "-run", "TestConformance"}
	journal = []string{"./internal/store/sqlite", "-run", "TestConformance"}

	inOrder = []string{"./internal/store/sqlite", "-run", "BeforeItIs"}

	planned = []string{"./internal/daemon", "-run", "TestRandomGraphs", "-args", "-sim.seeds=200"}

	hostile  = []string{"./internal/git", "-run", "Hostile"}
	launched = []string{"./internal/sandbox", "-run", "Launch"}
	escape   = []string{"./internal/sandbox", "-run", "TestEscape$/(others|git_folders)"}
	standing = []string{"./internal/sandbox", "-run", "TestEscape$/standing"}
	outside  = []string{"./internal/sandbox", "-run", "TestOutside|TestEscape$/outside"}
	taken    = []string{"./internal/sandbox", "-run", "TestEscape$/memory"}

	unplugged = []string{"./internal/sandbox", "-run", "TestResultOutlastsThePower"}

	changed = []string{"./internal/tool/builtin", "-run", "TestChangeOutlastsThePower"}

	traps = []string{"./internal/sandbox", "-run", "TestGitTraps|TestCheckObject"}

	graphLog = []string{"./internal/jsonl", "-args", "-rapid.nofailfile"} // what fails for a mutant is not to be tried again
)

var mutants = []mutant{
	{
		"a verdict counts for whatever is there by now", "internal/engine/verify.go",
		"if tree != found.Tree {", "if tree == \"\" {", engine,
	},
	{
		"a verifier that gave no verdict lets the work pass", "internal/engine/verify.go",
		"out.Tool.IsError, out.Tool.Content = true, res.Content", "out.Tool.IsError, out.Tool.Content = sent.Status.Completed != nil, `{\"tree\":\"`+tree+`\"}`", engine,
	},
	{
		"nobody stops the verifier of a task that ended", "internal/engine/subtask.go",
		"if v := c.Verification; v.Intent != nil && v.Outcome == nil {", "if v := c.Verification; v.Intent == nil && v.Outcome != nil {", engine,
	},
	{
		"a merge that a crash cut off counts as done", "internal/engine/merge.go",
		"merged, err := r.Worktrees.Merged(ctx, w, own.Commit)", "merged, err := &td.Merged{Into: w.Into}, error(nil)", sim,
	},
	{
		"no merge lease is taken", "internal/engine/merge.go",
		"\twants := []td.Want{{Resource: mergeResource(w)}}\n", "\tvar wants []td.Want\n", []string{"./internal/engine", "-run", "TestMergeWaitsForItsLease"},
	},
	{
		"work that conflicts is merged all the same", "internal/engine/merge.go",
		"case len(res.Conflicts) > 0:", "case len(res.Conflicts) > 99:", sim,
	},
	{
		"the integration branch forgets what was merged meanwhile", "internal/merge/merge.go",
		"next, conflicts, err = repo.Join(ctx, tip, w.Commit, message(w))", "next, conflicts, err = w.Commit, nil, nil", []string{"./internal/merge", "-args", "-rapid.nofailfile"},
	},
	{
		"a batch that does not pass is merged", "internal/merge/merge.go",
		"if n == 1 {", "if n > 1 {\n\t\t\treturn move(ctx, repo, chain[n-1].commit, from, nil)\n\t\t}\n\t\tif n == 1 {", []string{"./internal/merge", "-args", "-rapid.nofailfile"},
	},
	{
		"no fence: a zombie may write", "internal/store/mem/mem.go",
		"if !t.claim.held || t.claim.epoch != c.Epoch {", "if false {", memory,
	},
	{
		"no fence in SQLite", "internal/store/sqlite/tx.go",
		"if !e.held || e.epoch != c.Epoch {", "if false {", journal,
	},
	{
		"the head is not compared", "internal/store/sqlite/stream.go",
		"if !again {", "if !again && false {", journal,
	},
	{
		"an older fold of a task is kept", "internal/store/sqlite/unwritten.go",
		"cmp.Compare(a.newest, b.newest)", "cmp.Compare(b.newest, a.newest)",
		[]string{"./internal/store/sqlite", "-run", "TestGroupSeesItsOwnRows"},
	},
	{
		"acknowledged before it is committed", "internal/store/sqlite/writer.go",
		"if err := w.c.exec(\"COMMIT\"); err != nil {", "if err := w.c.exec(\"ROLLBACK\"); err != nil {", journal,
	},
	{
		"published before it is appended", "internal/store/sqlite/writer.go",
		"\tfpGroupCommit.Hit()\n", "\tw.s.bus.Publish(t.publish)\n\tt.publish = nil\n\tfpGroupCommit.Hit()\n",
		[]string{"./internal/store/sqlite", "-run", "TestNobodyIsToldBeforeTheCommit"},
	},
	{
		"a blob's name is not synced", "internal/store/sqlite/blob.go",
		"return b.syncDir(sub)", "return nil", inOrder,
	},
	{
		"the folder of a blob is not synced", "internal/store/sqlite/blob.go",
		"if err := b.syncDir(b.dir); err", "if err := error(nil); err", inOrder,
	},
	{
		"the state folder is not synced at open", "internal/store/sqlite/store.go",
		"if err := s.syncDir(s.dir); err", "if err := error(nil); err", inOrder,
	},
	{
		"a checkpoint is made before the log is synced", "internal/store/sqlite/writer.go",
		"err := w.sync.settle(context.Background()); err", "err := error(nil); err", inOrder,
	},
	{
		"an opaque step is run again blindly", "internal/engine/tools.go",
		"func (r *run) settle(ctx context.Context, c *transcript.Call, t tool.Tool) (again bool, err error) {",
		"func (r *run) settle(ctx context.Context, c *transcript.Call, t tool.Tool) (again bool, err error) {\n\tif true {\n\t\treturn true, nil\n\t}", sim,
	},
	{
		"a step in flight whose tool cannot resolve it is run again", "internal/engine/tools.go",
		"\t\tif prior.Effect == td.Pure {\n\t\t\treturn true, nil", "\t\tif true {\n\t\t\treturn true, nil",
		[]string{"./internal/engine", "-run", "TestCallThatCannotBeResolved"},
	},
	{
		"hooks hear secrets that are known", "internal/engine/hooks.go",
		"clean := r.Redact.Known(raw)", "clean := raw", secrets,
	},
	{
		"hooks hear secrets of a result", "internal/engine/tools.go",
		"tool.AtMost(r.Redact.String(res.Content))", "tool.AtMost(res.Content)", secrets,
	},
	{
		"hooks hear secrets of an error", "internal/engine/tools.go",
		"toolError(tool.AtMost(r.Redact.String(err.Error())))", "toolError(tool.AtMost(err.Error()))", secrets,
	},
	{
		"hooks hear secrets of a result that was found", "internal/engine/tools.go",
		"found.Content = r.Redact.String(found.Content)", "_ = r.Redact", secrets,
	},
	{
		"the act comes before its record", "internal/durable/step.go",
		"\tif err := l.intend(ctx, intents(s)); err != nil {\n\t\tif s.Refused != nil {\n\t\t\ts.Refused()\n\t\t}\n\t\treturn td.Outcome{}, err\n\t}\n\tfpIntended.Hit()\n\tout, err := l.run(ctx, s)",
		"\tout, err := l.run(ctx, s)\n\tif err := l.intend(ctx, intents(s)); err != nil {\n\t\treturn td.Outcome{}, err\n\t}", sim,
	},
	{
		"budgets are not held", "internal/store/rule/budget.go",
		"if err := b.Short(c.Of(k.want.Amount, k.want.Tokens)); err != nil {", "if err := b.Short(c.Of(k.want.Amount, k.want.Tokens)); err != nil && false {", memory,
	},
	{
		"what others have set aside does not count", "internal/td/budget.go",
		"max(b.Limit-b.Spent-b.Reserved, 0)", "max(b.Limit-b.Spent, 0)", memory,
	},
	{
		"a call that is made again is not booked", "internal/td/budget.go",
		"booked = append(booked, r.lost(CauseRepeated))", "_ = r", memory,
	},
	{
		"a reservation is never settled", "internal/store/sqlite/budget.go",
		"t.exec(\"DELETE FROM reserved WHERE task = ?\", n)", "t.exec(\"DELETE FROM reserved WHERE task = -?\", n)", journal,
	},
	{
		"what a budget refused is taken for done", "internal/durable/step.go",
		"in.Reserve != nil && len(in.Reserve.Caps) > 0", "false", budgets,
	},
	{
		"who waits for calls under way waits for ever", "internal/engine/budget.go",
		"case was.Passes() && !short.Passes():", "case false:", budgets,
	},
	{
		"people are told of a budget again and again", "internal/store/mem/budget.go",
		"k.Warned = max(k.Warned, w.Percent)", "_ = k", budgets,
	},
	{
		"what is kept is let go before its outcome is recorded", "internal/durable/step.go",
		"l.then = append(l.then, s.Then)", "s.Then()",
		[]string{"./internal/durable"},
	},
	{
		"an outcome that was not recorded is taken for one that was", "internal/durable/step.go",
		"if err := l.Flush(ctx); err != nil {", "if err := l.Flush(ctx); err != nil && false {",
		[]string{"./internal/durable"},
	},
	{
		"a command's spool is removed before its outcome is recorded", "internal/engine/tools.go",
		"Run: r.leased(c.Key, wants, r.judged(c, act)),\n\t\tKept: call.Kept, Then: func() { r.clean(c.Key, attempt) },",
		"Kept: call.Kept, Run: func(ctx context.Context) (td.Outcome, error) {\n\t\t\tdefer r.forget(c.Key.Try(attempt))\n\t\t\treturn r.leased(c.Key, wants, r.judged(c, act))(ctx)\n\t\t},", []string{"./internal/engine", "-run", "TestSpoolStays"},
	},
	{
		"an answer for one attempt is taken for the next", "internal/transcript/transcript.go",
		"t.Calls[i].Intent, t.Calls[i].Unknown, t.Untouched = &in, nil, false", "t.Calls[i].Intent, t.Untouched = &in, false", sim,
	},
	{
		"a retry reuses the first attempt's name", "internal/engine/tools.go",
		"attempt = c.Intent.Attempt + 1\n", "attempt = c.Intent.Attempt\n", sim,
	},
	{
		"two tasks have one file at once", "internal/td/lease.go",
		"if len(held) >= limit {", "if len(held) > limit {", sim,
	},
	{
		"a crash gives leases back", "internal/td/lease.go",
		"\ton := b.Status.Blocked\n", "\ton := b.Status.Blocked\n\tif b.Verb == VerbRecover {\n\t\tfor _, s := range t.InFlight {\n\t\t\tt.giveBack(s.Key)\n\t\t}\n\t}\n", sim,
	},
	{
		"who waits for a lease is not woken", "internal/engine/lease.go",
		"if r.Leases.Freed != nil {", "if r.Leases.Freed != nil && false {", sim,
	},
	{
		"everybody asks for everybody's budget", "internal/td/budget.go",
		"return !b.Asked && b.Kept < b.Limit", "return true", budgets,
	},
	{
		"a lost claim goes unnoticed", "internal/coord/keeper.go",
		"td.ClaimTTL-td.ClaimKill-time.Second", "100*td.ClaimTTL",
		[]string{"./internal/coord"},
	},
	{
		"a claim that another took goes unnoticed", "internal/coord/keeper.go",
		"case !still || epoch != h.Epoch:", "case false && (!still || epoch != h.Epoch):",
		[]string{"./internal/coord"},
	},
	{
		"whoever commits fast keeps tasks from their work", "internal/engine/worktree.go",
		"if r.caughtUp == turn {", "if r.caughtUp == turn && false {",
		[]string{"./internal/engine", "-run", "TestBusyTrunk"},
	},
	{
		"a full disk takes no result", "internal/sandbox/files.go",
		"unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, resultRoom)", "error(nil)",
		[]string{"./internal/sandbox", "-run", "TestRoomForTheResult"},
	},
	{
		"tools are started under a claim that runs out", "internal/coord/keeper.go",
		"return time.Since(h.keeper.held[h]) < td.ClaimTTL-td.ClaimNoStart", "return true",
		[]string{"./internal/coord"},
	},
	{
		"results in the order they came, not of the calls", "internal/transcript/transcript.go",
		"blocks = append(blocks, td.Block{Type: td.ToolResultBlock,", "blocks = append([]td.Block{}, blocks...)\n\t\tblocks = append([]td.Block{{Type: td.ToolResultBlock, ID: c.Use.ID}}, blocks...)\n\t\tblocks = append(blocks, td.Block{Type: td.ToolResultBlock,",
		[]string{"./internal/transcript"},
	},
	{
		"the conversation is not what the journal has", "internal/durable/log.go",
		"ev.Body = sealed.Body", "_ = sealed", engine,
	},
	{
		"a request can be answered twice", "internal/td/task.go",
		"t.Requests = without(t.Requests, b.Answer.Request)", "_ = b", engine,
	},
	{
		"a call that failed for good is tried again", "internal/engine/model.go",
		"if n >= len(waits) {", "if n >= len(waits)+1000 {", engine,
	},
	{
		"a tool call cut in two is run", "internal/engine/model.go",
		"if b.Type == td.ToolUseBlock && (b.Malformed != \"\" || resp.Cut || last && noInput(b.Input)) {", "if last && false {", engine,
	},
	{
		"a shim does not look whether it was voided", "internal/sandbox/shim.go",
		"case exists(s.dir, voidFile):", "case false:",
		[]string{"./internal/sandbox", "-run", "TestVoidStopsALateShim"},
	},
	{
		"a shim that was told to end gets another command", "internal/sandbox/child.go",
		"\tc.carrier.doomed = true\n", "",
		[]string{"./internal/sandbox", "-run", "TestShimToldToEndGetsNoOtherCommand"},
	},
	{
		"a command is not marked as started", "internal/sandbox/shim.go",
		"if err := create(s.dir, startedFile); err != nil {", "if err := error(nil); err != nil {",
		[]string{"./internal/sandbox", "-run", "TestSecondShimRunsNothing|TestOrphansOfAKilledShim|TestShimDies|TestTornFiles"},
	},
	{
		"the result of a command is not synced", "internal/sandbox/files.go",
		"\t\terr = f.Sync()\n", "", unplugged,
	},
	{
		"the folder of a command's result is not synced", "internal/sandbox/files.go",
		"return syncFolder(dir)", "return nil", unplugged,
	},
	{
		"the output of a command is not synced", "internal/sandbox/output.go",
		"_ = r.file.Sync()", "_ = r.file", unplugged,
	},
	{
		"Write and Edit do not sync before the rename", "internal/tool/builtin/change.go",
		"\t\terr = f.Sync()\n", "", changed,
	},
	{
		"the rename of Write is not synced", "internal/tool/builtin/change.go",
		"\tfpAfterRename.Hit()\n\tif err := dir.Sync(); err", "\tfpAfterRename.Hit()\n\tif err := error(nil); err", changed,
	},
	{
		"a rename that was seen is taken for one that lasts", "internal/tool/builtin/change.go",
		"\t\tif err := dir.Sync(); err", "\t\tif err := error(nil); err", changed,
	},
	{
		"of two values of one op, the one that came last counts", "internal/jsonl/fold.go",
		"return bytes.Compare(v.Raw, w.Raw) > 0", "return !bytes.Equal(v.Raw, w.Raw)", graphLog,
	},
	{
		"a compact line takes newer changes with it", "internal/jsonl/merge.go",
		"needless[i] = r.holds(&c)", "needless[i] = c.Op.Compare(r.Last) < 0", graphLog,
	},
	{
		"a compact line forgets when its fields were set", "internal/jsonl/fold.go",
		"c.Set[field], c.At.Set[field] = v.Raw, v.Op", "c.Set[field], c.At.Set[field] = v.Raw, r.Last", graphLog,
	},
	{
		"a planned task starts before its blocker", "internal/workgraph/node.go",
		"return n.deleted && !n.there || n.state == td.Completed", "return n.deleted && !n.there || n.state != td.Queued", planned,
	},
	{
		"a task begins without what it waited for", "internal/worktree/worktree.go",
		"if in, err := l.Contains(ctx, into, trunk); err != nil || in {\n\t\treturn into, err", "if in, err := l.Contains(ctx, into, trunk); err != nil || in {\n\t\treturn trunk, err", planned,
	},
	{
		"work that was kept is not brought back", "internal/worktree/worktree.go",
		"err := t.at(w).Restore(ctx, keptRef(w))", "err := error(td.Errorf(td.NotFound, \"nothing\"))", []string{"./internal/worktree"},
	},
	{
		"what is said to a task while somebody works on it is not heard", "internal/scheduler/scheduler.go",
		"e.inbox = true\n\t\treturn", "return", []string{"./internal/scheduler", "-run", "TestRandomSchedules"},
	},
	{
		"a parent is not woken by its child's end", "internal/scheduler/scheduler.go",
		"s.again(ctx, d.task.Parent)", "_ = ctx", []string{"./internal/scheduler", "-run", "TestParentIsWoken"},
	},
	{
		"a planned task is closed twice", "internal/graph/once.go",
		"if t.Verdict == nil || v.Run == \"\" {", "if true {", planned,
	},
	{
		"what was opened again is closed again by a run of before", "internal/graph/once.go",
		"if t.Knows(v) {", "if false {", []string{"./internal/graph", "-run", "TestAnEndCountsOnce"},
	},
	{
		"the end of a planned task is not written", "internal/daemon/projects.go",
		"err = s.End(ctx, t.ID, verdictOf(t, m.Status))", "err = nil", planned,
	},
	{
		"a task begins without what a task of another feature made", "internal/daemon/run_unseen.go",
		"if len(lacks) > 0 {", "if len(lacks) > 99 {", planned,
	},
	{
		"the branches of a feature are one for all trunks", "internal/git/trunk.go",
		"name = feature + \"@\" + name", "name = feature + \"@main\"", []string{"./internal/daemon", "-run", "TestRandomGraphs", "-args", "-sim.seeds=1000"},
	},
	{
		"a lost race for a trunk is not run again", "internal/worktree/follow.go",
		"return td.Obstacle{}, true, nil\n", "return td.Obstacle{}, false, nil\n", planned,
	},
	{
		"a trunk is moved though a person is in the middle of a rebase", "internal/worktree/follow.go",
		"g.FastForward(ctx, w.Repo, w.Trunk, to, before)", "g.MoveRef(ctx, w.Repo, \"refs/heads/\"+w.Trunk, to, trunk)", planned,
	},
	{
		"nobody writes down what a trunk lacks", "internal/worktree/follow.go",
		"if err == nil && in.Reason != \"\" {", "if err == nil && in.Reason == \"-\" {", planned,
	},
	{
		"a bad line is dropped", "internal/jsonl/merge.go",
		"p.bad = append(p.bad, line)", "_ = line", graphLog,
	},
	{
		"a clock goes back with the wall clock", "internal/jsonl/clock.go",
		"case wall > c.last.Wall || c.last == (Stamp{}):", "case wall != c.last.Wall:", graphLog,
	},
	{
		"the daemon's git is started without a view", "internal/git/standin.go",
		"return launcher.Start(l)", "return launchUnconfined(l)", hostile,
	},
	{
		"a program of the workspace can be executed in a view", "internal/sandbox/view.go",
		"r.allow(path, read|rightsWrite)", "r.allow(path, read|rightsWrite|unix.LANDLOCK_ACCESS_FS_EXECUTE)", launched,
	},
	{
		"a program of the workspace can be loaded in a view", "internal/sandbox/view.go",
		"partOpen = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC", "partOpen = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV", launched,
	},
	{
		"all that can be read in a view can be written", "internal/sandbox/view.go",
		"{v.Read, partData, false}", "{v.Read, partOpen, false}", launched,
	},
	{
		"the settings of a repository are what its git reads", "internal/git/run.go",
		"l.View.Files = standsIn", "_ = standsIn", hostile,
	},
	{
		"a repository borrows objects from wherever it likes", "internal/git/settings.go",
		"if !named {", "if !named && false {", []string{"./internal/git", "-run", "TestCheckoutOf"},
	},
	{
		"main follows without the person's hooks, unasked", "internal/worktree/follow.go",
		"return set == config.TrunkAsk, lacking(demands), err", "return set == config.TrunkAsk, lacking(git.Demands{Hooks: demands.Hooks[:0]}), err", []string{"./internal/worktree", "-run", "TestAsks"},
	},
	{
		"links are followed on the way to a file", "internal/beneath/beneath.go",
		"unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS", "unix.RESOLVE_BENEATH", []string{"./internal/beneath"},
	},
	{
		"what is not written can be changed in mode and owner", "internal/sandbox/trees.go",
		"Attr_set: unix.MOUNT_ATTR_RDONLY", "Attr_set: unix.MOUNT_ATTR_NODEV", []string{"./internal/sandbox", "-run", "TestEscape$"},
	},
	{
		"plan mode leaves the network", "internal/engine/tools.go",
		"p.Files, p.Write, p.Network, p.Required = sandbox.ReadOnly, nil, sandbox.NetworkOff, true", "p.Files, p.Write, p.Required = sandbox.ReadOnly, nil, true", engine,
	},
	{
		"what is allowed because it is held runs free", "internal/engine/tools.go",
		"held = r.heldTo(d.Confined)", "held = r.heldTo(policy.Unconfined)", engine,
	},
	{
		"a snapshot misses what happened in a new folder", "internal/git/steps_watch.go",
		"|unix.IN_ISDIR) != 0", ") != 0", []string{"./internal/git", "-run", "TestStepsHear"},
	},
	{
		"a snapshot is made of an index that lacks what was taken without it", "internal/git/steps.go",
		"if err == nil && len(s.behind) > 0 {", "if err == nil && len(s.behind) > 1<<30 {", []string{"./internal/git", "-run", "TestStepsIndexBehind|TestStepsWithoutGit"},
	},
	{
		"a file whose lines git would change is taken as it is", "internal/git/steps_plain.go",
		"(p.converts || p.files[name].converts) && bytes", "p.converts && bytes", []string{"./internal/git", "-run", "TestStepsWithoutGit"},
	},
	{
		"a folder that changed is taken for the one that was read", "internal/sandbox/familiar.go",
		"is && was.is == stateOfFolder(st)", "is && was.is.ino == st.Ino", []string{"./internal/sandbox", "-run", "TestFamiliarFolders"},
	},
	{
		"what was read of a folder in the moment of its change is remembered", "internal/sandbox/familiar.go",
		"> int64(settledFor)", "> -1<<40", []string{"./internal/sandbox", "-run", "TestFamiliarIsOld"},
	},
	{
		"after a command that only looks references are judged by nothing", "internal/sandbox/execute.go",
		"if c != nil && s.spec.Profile.Files == WorkspaceWrite { // else", "if c != nil { // else", []string{"./internal/sandbox", "-run", "TestLookingKeepsRefs"},
	},
	{
		"a snapshot believes a watch that missed something", "internal/git/steps_watch.go",
		"if mask&unix.IN_Q_OVERFLOW != 0 || length", "if length", []string{"./internal/git", "-run", "TestStepsHear"},
	},
	{
		"a command in its own worktree reaches any host", "internal/policy/policy.go",
		"case len(r.hosts) > 0 && !(own && r.nearby()):", "case len(r.hosts) > 0 && !own:", []string{"./internal/policy", "-run", "OwnWorktree"},
	},
	{
		"a rule about validators is passed over", "internal/engine/validator.go",
		"if d.Verdict != policy.Ask || !d.Unruled {", "if d.Verdict != policy.Ask {", []string{"./internal/engine", "-run", "Validator"},
	},
	{
		"an answer keeps rules that nobody offered", "internal/daemon/answer.go",
		"if !slices.ContainsFunc(r.Offers, func(o td.Offer) bool { return slices.Contains(o.Rules, rule) }) {", "if false {", []string{"./internal/daemon", "-run", "Answer|Offer"},
	},
	{
		"what has no price has no bound", "internal/engine/budget.go",
		"if len(caps) == 0 && b.Unpriced > 0 {", "if false {", []string{"./internal/engine", "-run", "Budget"},
	},
	{
		"work that lay too long goes on unasked", "internal/daemon/recovery.go",
		"|| time.Since(t.UpdatedAt) > c.MaxAge", "|| t.UpdatedAt.IsZero() && c.MaxAge == 0", []string{"./internal/daemon", "-run", "TestWorkThatLayTooLong"},
	},
	{
		"the daemon starts with a git that is confined in part", "internal/daemon/sandbox.go",
		"if mode != config.SandboxRequired {", "if true {", []string{"./internal/daemon", "-run", "TestGitMustBeConfined"},
	},
	{
		"a command whose mounts fail runs without", "internal/sandbox/cell.go",
		"case p.Required || !mountsWork():", "case true:", escape,
	},
	{
		"a command sets limits of other processes", "internal/sandbox/listener.go",
		"{nr: unix.SYS_PRLIMIT64,", "{nr: unix.SYS_GETRLIMIT,", escape,
	},
	{
		"a command changes any process that it has the number of", "internal/sandbox/listener.go",
		"ok && descends(target, os.Getpid())", "ok && target > 0", standing,
	},
	{
		"a command changes all processes of its user", "internal/sandbox/seccomp.go",
		"if call.kinds {", "if false {", standing,
	},
	{
		"memory that belongs to no process is not counted", "internal/sandbox/limits.go",
		"held += m.shared(tree, l.Memory-held, now)", "_ = m.shared", taken,
	},
	{
		"memory that processes share counts for each of them", "internal/sandbox/memory.go",
		`[]byte("Pss:")`, `[]byte("Rss:")`, taken,
	},
	{
		"a process whose first thread has ended looks dead", "internal/sandbox/holder.go",
		"s.zombie() && s.threads <= 1", "s.zombie()", taken,
	},
	{
		"a command shares memory with other processes", "internal/sandbox/base.go",
		"unix.CLONE_NEWNS | unix.CLONE_NEWIPC", "unix.CLONE_NEWNS", escape,
	},
	{
		"a command has the person's terminals", "internal/sandbox/mounts.go",
		"return mountTerminals()", "return nil", escape,
	},
	{
		"what asks a service finds programs of the workspace", "internal/sandbox/outside.go",
		"if p == nil || !p.Outside {", "if true {", outside,
	},
	{
		"what asks a service runs programs of the workspace through a link", "internal/sandbox/outside.go",
		"Attr_set: unix.MOUNT_ATTR_NOEXEC", "Attr_set: unix.MOUNT_ATTR_NODEV", outside,
	},
	{
		"what asks a service has the shell of an unclean PATH", "internal/sandbox/spool.go",
		"if p == nil || !p.Outside {", "if true {", outside,
	},
	{
		"what asks a service can write", "internal/engine/tools.go",
		"p.Files, p.Outside = sandbox.ReadOnly, true", "p.Outside = true", engine,
	},
	{
		"a job changes the git settings of other commands", "internal/sandbox/cell.go",
		"settings = filepath.Join(c.settings, gitSettingsFile)", "settings = filepath.Join(c.temp, \".gitconfig\")", []string{"./internal/sandbox", "-run", "TestGitSettingsOf"},
	},
	{
		"a command makes a setuid program", "internal/sandbox/modes.go",
		"return unix.S_ISUID | unix.S_ISGID", "return unix.S_ISGID", []string{"./internal/sandbox", "-run", "TestEscape$/modes"},
	},
	{
		"a workspace opens whatever it says is its repository", "internal/sandbox/git.go",
		"filepath.Dir(own) != filepath.Join(common, \"worktrees\")", "false", escape,
	},
	{
		"a link that a command or a commit made opens what it leads to", "internal/sandbox/ground.go",
		"return place == \"\" ||", "return true ||", []string{"./internal/sandbox", "-run", "TestLinksOf"},
	},
	{
		"what was resolved is opened through a link", "internal/sandbox/ground.go",
		"Resolve: unix.RESOLVE_NO_SYMLINKS", "Resolve: 0", []string{"./internal/sandbox", "-run", "TestOpenReal"},
	},
	{
		"a job makes a repository where an index names one", "internal/sandbox/mounts.go",
		"slices.Concat(p.Hooks, p.unmade())", "slices.Concat(p.Hooks)", []string{"./internal/sandbox", "-run", "TestNoRepositoryIsMade"},
	},
	{
		"a job leads git elsewhere as long as it runs", "internal/sandbox/execute.go",
		"over = watchOver(c.repos)", "_ = watchOver", escape,
	},
	{
		"a repository that a command made keeps its programs", "internal/sandbox/execute.go",
		"taken, left = p.disarm(c.had, since, named, e, &s.known)", "_, _ = taken, named", escape,
	},
	{
		"an object is believed by its name", "internal/sandbox/object.go",
		"case hex.EncodeToString(sum.Sum(nil)) != name:", "case false:", traps,
	},
	{
		"an index may lead anywhere", "internal/sandbox/index.go",
		"case len(one.path) > 0 && !plainPath(one.path, one.mode == modeFolder):", "case false:", traps,
	},
	{
		"a trunk that went on is not checked", "internal/merge/merge.go",
		"said, err := passes(ctx, chain, check)", "said, err := \"\", error(nil)", []string{"./internal/merge"},
	},
}

// With -short it is only looked whether the places to change are there: each mutant is compiled anew. With TASKDAEMON_MUTANTS_PART, as 0/6 to
// 5/6 for the sixths, a part of them is tried.
func TestEveryMutantIsCaught(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	k, n := 0, 1
	if text := os.Getenv("TASKDAEMON_MUTANTS_PART"); text != "" {
		if _, err := fmt.Sscanf(text, "%d/%d", &k, &n); err != nil || n < 1 || k < 0 || k >= n {
			t.Fatalf("TASKDAEMON_MUTANTS_PART=%s: want a part such as 0/6", text)
		}
	}
	for i, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			overlay := plant(t, root, m) // which finds the place to change, of all of them
			if testing.Short() || i%n != k {
				return
			}
			args := append([]string{"test", "-overlay", overlay, "-count=1", "-timeout", "5m", "-failfast", "-v"}, m.tests...)
			cmd := exec.Command("go", args...)
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			text := string(out)
			switch {
			case err == nil && strings.Contains(text, "--- SKIP") && !strings.Contains(text, "--- PASS"):
				t.Skipf("what would notice it cannot run here:\n%s", text)
			case err == nil:
				t.Errorf("nothing noticed it: go %s", strings.Join(args, " "))
			case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]"):
				t.Errorf("the mutant does not build:\n%s", text)
			case !strings.Contains(text, "--- FAIL") && !strings.Contains(text, "panic:"):
				t.Errorf("it failed, but no test did:\n%s", text)
			}
		})
	}
}

// plant writes the changed file beside the sources' and returns the overlay that puts it in their place.
func plant(t *testing.T, root string, m mutant) string {
	t.Helper()
	path := filepath.Join(root, m.file)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), m.old); n != 1 {
		t.Fatalf("%s has the place to change %d times", m.file, n)
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(changed, []byte(strings.Replace(string(raw), m.old, m.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
