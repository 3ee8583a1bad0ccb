package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/td"
)

// Key is one setting: its name in the file, what it means, and where it lives in a Config.
type Key struct {
	Name    string   // dotted, as in timeouts.tool
	Doc     string   // one sentence
	Enum    []string // the only values, if set
	path    bool     // a file's path: ~ and relative paths are resolved
	project bool     // an entry of `projects:` can set it
	check   func(c *Config) error
	field   func(c *Config) any // a pointer to the value
}

// Keys is every setting, in the order of the reference.
var Keys = []Key{
	{
		Name: "provider", Doc: "Who answers: anthropic, openai (or anything that speaks its Chat Completions API: set base_url), the built-in rehearsal model, or auto: anthropic if a key is in the environment, else rehearsal.",
		Enum: []string{Auto, Anthropic, OpenAI, RehearsalProvider}, field: func(c *Config) any { return &c.Provider },
	},
	{
		Name: "base_url", Doc: "Address of the API, when it is not the provider's own. Also `ANTHROPIC_BASE_URL` or `OPENAI_BASE_URL`, for that provider only.",
		field: func(c *Config) any { return &c.BaseURL }, check: func(c *Config) error { return checkURL(c.BaseURL) },
	},
	{
		Name: "api_key_env", Doc: "Name of the environment variable that holds the API key; empty is the provider's own: `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`. The key itself never stands in a file.",
		field: func(c *Config) any { return &c.APIKeyEnv },
		check: func(c *Config) error {
			if c.APIKeyEnv == "" {
				return nil
			}
			return checkKeyEnv(c.APIKeyEnv)
		},
	},
	{
		Name: "models.small", Doc: "Model for small jobs.", field: func(c *Config) any { return &c.Models.Small },
		check: filled(func(c *Config) string { return c.Models.Small }),
	},
	{
		Name: "models.worker", Doc: "Model that does the work unless a task says otherwise.", field: func(c *Config) any { return &c.Models.Worker },
		check: filled(func(c *Config) string { return c.Models.Worker }),
	},
	{
		Name: "models.expert", Doc: "Model for hard work.", field: func(c *Config) any { return &c.Models.Expert },
		check: filled(func(c *Config) string { return c.Models.Expert }),
	},
	{
		Name: "max_tokens", Doc: "Longest answer, in tokens.", field: func(c *Config) any { return &c.MaxTokens },
		check: atLeast(1, func(c *Config) int { return c.MaxTokens }),
	},
	{
		Name: "window.tokens", Doc: "Tokens that fit the models' window, with the answer.", field: func(c *Config) any { return &c.Window.Tokens },
		check: func(c *Config) error {
			if c.Window.Tokens < c.MaxTokens+1000 {
				return fmt.Errorf("must leave room beside max_tokens (%d)", c.MaxTokens)
			}
			return nil
		},
	},
	{
		Name: "window.percent", Doc: "Share of the window above which the conversation is compacted.", field: func(c *Config) any { return &c.Window.Percent },
		check: func(c *Config) error {
			if c.Window.Percent < 10 || c.Window.Percent > 99 {
				return fmt.Errorf("must be between 10 and 99")
			}
			return nil
		},
	},
	{
		Name: "thinking", Doc: "Budget for thinking, in tokens; 0 is off.", field: func(c *Config) any { return &c.Thinking },
		check: checkThinking,
	},
	{
		Name: "temperature", Doc: "How freely models choose their words: a number from 0 to 2, as far as the provider takes it; empty is the provider's own. It is not sent where the model thinks.",
		field: func(c *Config) any { return &c.Temperature }, check: func(c *Config) error { return td.CheckTemperature(c.Temperature) },
	},

	{Name: "timeouts.request_headers", Doc: "How long the API may take to begin an answer; 0 is 5 minutes.", field: func(c *Config) any { return &c.Timeouts.RequestHeaders }},
	{Name: "timeouts.stream_idle", Doc: "How long an answer may be silent before it counts as cut; 0 is 2 minutes, with kind openai 5.", field: func(c *Config) any { return &c.Timeouts.StreamIdle }},
	{
		Name: "timeouts.stream_progress", Doc: "How long an answer may bring less than a letter of text, thought or tool input a second before it counts as cut, whatever else comes.",
		field: func(c *Config) any { return &c.Timeouts.StreamProgress },
		check: positive(func(c *Config) time.Duration { return c.Timeouts.StreamProgress }),
	},
	{
		Name: "timeouts.request", Doc: "How long a model call may take in all.", field: func(c *Config) any { return &c.Timeouts.Request },
		check: positive(func(c *Config) time.Duration { return c.Timeouts.Request }),
	},
	{
		Name: "timeouts.tool", Doc: "How long a tool call may take, unless the tool says otherwise.", field: func(c *Config) any { return &c.Timeouts.Tool },
		check: positive(func(c *Config) time.Duration { return c.Timeouts.Tool }),
	},
	{
		Name: "timeouts.permission", Doc: "How long a permission request stays open before it counts as no.", field: func(c *Config) any { return &c.Timeouts.Permission },
		check: positive(func(c *Config) time.Duration { return c.Timeouts.Permission }),
	},
	{Name: "timeouts.shutdown", Doc: "How long a stop waits for steps in flight; what is left is for recovery. Calls of models are cut at once.", field: func(c *Config) any { return &c.Timeouts.Shutdown }},
	{
		Name: "timeouts.background_job", Doc: "How long a background job may live.", field: func(c *Config) any { return &c.Timeouts.BackgroundJob },
		check: positive(func(c *Config) time.Duration { return c.Timeouts.BackgroundJob }),
	},
	{Name: "timeouts.subtask", Doc: "How long a task waits for a subtask before that is cancelled; `0s` is no limit.", field: func(c *Config) any { return &c.Timeouts.Subtask }},

	{
		Name: "limits.loops", Doc: "Tasks that run at the same time.", field: func(c *Config) any { return &c.Limits.Loops },
		check: atLeast(1, func(c *Config) int { return c.Limits.Loops }),
	},
	{Name: "limits.loops_per_project", Doc: "Tasks of one project that run at the same time; 0: as many as limits.loops.", project: true, field: func(c *Config) any { return &c.Limits.LoopsPerProject }},
	{
		Name: "limits.turns", Doc: "Turns of a task before it pauses and asks.", field: func(c *Config) any { return &c.Limits.Turns },
		check: atLeast(1, func(c *Config) int { return c.Limits.Turns }),
	},
	{Name: "limits.reminders", Doc: "Reminders to an agent that stops without saying whether it is done.", field: func(c *Config) any { return &c.Limits.Reminders }},
	{Name: "limits.iterations", Doc: "Iterations that a run over the graph may begin of one task before a person is asked; 0: any number.", field: func(c *Config) any { return &c.Limits.Iterations }},
	{Name: "limits.verifications", Doc: "How often a task is begun anew because the verifier did not let it pass, before it fails.", field: func(c *Config) any { return &c.Limits.Verifications }},

	{Name: "limits.calls", Doc: "Calls of models at the same time, of all loops; 0 is no bound.", field: func(c *Config) any { return &c.Limits.Calls }},
	{Name: "limits.requests", Doc: "Calls of models in a minute with each key, besides what the provider says; 0 is no bound.", field: func(c *Config) any { return &c.Limits.Requests }},
	{Name: "limits.tokens", Doc: "Tokens in a minute with each key that are not read from the cache, besides what the provider says; 0 is no bound.", field: func(c *Config) any { return &c.Limits.Tokens }},
	{Name: "limits.escalate", Doc: "Failed attempts (nominations that the validator refused, resumes after a failure) after which the next tier's model is used; 0 is off.", field: func(c *Config) any { return &c.Limits.Escalate }},

	{Name: "retry.network", Doc: "Waits before each new attempt after a network error, a time-out or a 5xx.", field: func(c *Config) any { return &c.Retry.Network }},
	{Name: "retry.overloaded", Doc: "Waits before each new attempt when the provider is overloaded (529).", field: func(c *Config) any { return &c.Retry.Overloaded }},
	{Name: "retry.rate_limited_max", Doc: "Attempts after a rate limit (429); each waits as long as the provider asks.", field: func(c *Config) any { return &c.Retry.RateLimitedMax }},
	{Name: "retry.rate_limited_wait", Doc: "Wait after a rate limit for which the provider names no time.", field: func(c *Config) any { return &c.Retry.RateLimitedWait }},
	{Name: "retry.rest", Doc: "How long a task rests, blocked, when these waits are used up and no model is left to ask; then the model is asked once more. The last one counts for all further rests.", field: func(c *Config) any { return &c.Retry.Rest }},
	{Name: "retry.rest_max", Doc: "How long a task may rest in all before it fails; `0s` fails it at once.", field: func(c *Config) any { return &c.Retry.RestMax }},

	{
		Name: "permissions.mode", Doc: "What tasks may do without asking: ask (nothing that changes something), accept-edits (edit files of the workspace, build and test in the sandbox), auto (also run commands that the sandbox holds to the workspace without a network), plan (nothing is changed).",
		Enum: permissionModes(), field: func(c *Config) any { return &c.Permissions.Mode },
	},
	{
		Name: "permissions.untrusted", Doc: "How a task is held that has read text which anybody may have written, of the web or of a server of tools: asis, or ask: before every command that is not known to only look, and where only rules allow something that do not say untrusted: true.",
		Enum: []string{UntrustedAsIs, UntrustedAsk}, field: func(c *Config) any { return &c.Permissions.Untrusted },
	},
	{
		Name: "anomalies.action", Doc: "What follows when a task does what tasks do not usually do: warn records and tells it, pause stops the task as well.",
		Enum: []string{string(td.AnomalyWarn), string(td.AnomalyPause)}, field: func(c *Config) any { return &c.Anomalies.Action },
	},
	{Name: "anomalies.writes", Doc: "Files a task may write in a minute before that is odd; 0 is off.", field: func(c *Config) any { return &c.Anomalies.Writes }},
	{Name: "anomalies.commands", Doc: "Commands a task may run in a minute before that is odd; 0 is off.", field: func(c *Config) any { return &c.Anomalies.Commands }},
	{Name: "anomalies.places", Doc: "Whether a folder outside the workspace or a host is odd that a task reaches for the first time.", field: func(c *Config) any { return &c.Anomalies.Places }},
	{Name: "anomalies.memory", Doc: "Memory that one command may take before that is odd; 0 is off.", field: func(c *Config) any { return &c.Anomalies.Memory }},
	{Name: "anomalies.cpu", Doc: "Time that one command may compute before that is odd; 0 is off.", field: func(c *Config) any { return &c.Anomalies.CPU }},

	{Name: "drift.turn_tokens", Doc: "Tokens that one turn adds, above which the model is told; 0 is off.", field: func(c *Config) any { return &c.Drift.TurnTokens }},
	{Name: "drift.tool_failures", Doc: "Tool calls that fail one after the other before a person is asked; 0 is off.", field: func(c *Config) any { return &c.Drift.ToolFailures }},
	{Name: "drift.no_progress", Doc: "Time in which nothing new was done before a person is asked; 0 is off.", field: func(c *Config) any { return &c.Drift.NoProgress }},
	{Name: "drift.repeats", Doc: "Same calls among the last ten: the model is told, and if it goes on a person is asked; 0 is off.", field: func(c *Config) any { return &c.Drift.Repeats }},

	{Name: "budget.task", Doc: "Dollars a task may cost before a person is asked, not counting its subtasks; 0 is no bound.", field: func(c *Config) any { return &c.Budget.Task }},
	{Name: "budget.tree", Doc: "Dollars a task may cost with all its subtasks before a person is asked; 0 is no bound.", field: func(c *Config) any { return &c.Budget.Tree }},
	{Name: "budget.day", Doc: "Dollars all tasks may cost in a day of the daemon's time zone; then they wait for the next day. 0 is no bound.", field: func(c *Config) any { return &c.Budget.Day }},
	{Name: "budget.month", Doc: "Dollars all tasks may cost in a month; 0 is no bound.", field: func(c *Config) any { return &c.Budget.Month }},
	{Name: "budget.task_tokens", Doc: "Tokens a task may take, sent and received, before a person is asked, not counting its subtasks: 200k, 5M; 0 is no bound.", field: func(c *Config) any { return &c.Budget.TaskTokens }},
	{Name: "budget.tree_tokens", Doc: "Tokens a task may take with all its subtasks before a person is asked; 0 is no bound.", field: func(c *Config) any { return &c.Budget.TreeTokens }},
	{Name: "budget.day_tokens", Doc: "Tokens all tasks may take in a day; then they wait for the next day. 0 is no bound.", field: func(c *Config) any { return &c.Budget.DayTokens }},
	{Name: "budget.month_tokens", Doc: "Tokens all tasks may take in a month; 0 is no bound.", field: func(c *Config) any { return &c.Budget.MonthTokens }},
	{Name: "budget.unpriced_tokens", Doc: "Tokens a task may take before a person is asked if its model has no known price and no other token budget holds; 0 is no bound. Rehearsals are free.", field: func(c *Config) any { return &c.Budget.UnpricedTokens }},
	{Name: "budget.unpriced_day_tokens", Doc: "Tokens all tasks may take in a day before a call of a model without a known price waits, where budget.day or budget.month is set and neither day_tokens nor month_tokens is; 0 is no bound.", field: func(c *Config) any { return &c.Budget.UnpricedDayTokens }},

	{
		Name: "recovery.mode", Doc: "After a crash: auto goes on with everything, ask asks first.", Enum: []string{RecoverAuto, RecoverAsk},
		field: func(c *Config) any { return &c.Recovery.Mode },
	},
	{
		Name: "recovery.max_age", Doc: "Work that lay longer than this is asked about before it goes on.", field: func(c *Config) any { return &c.Recovery.MaxAge },
		check: positive(func(c *Config) time.Duration { return c.Recovery.MaxAge }),
	},
	{
		Name: "recovery.orphans", Doc: "How often processes of tasks are looked for that lost the shim above them; they are ended.", field: func(c *Config) any { return &c.Recovery.Orphans },
		check: positive(func(c *Config) time.Duration { return c.Recovery.Orphans }),
	},
	{
		Name: "disk.warn", Doc: "How full the disk of the state folder may be, by room or by inodes, in percent, before the log, status, doctor and the notification command say so; told again at 95 and 99.", field: func(c *Config) any { return &c.Disk.Warn },
		check: percent(func(c *Config) int { return c.Disk.Warn }),
	},
	{
		Name: "disk.every", Doc: "How often that disk is looked at.", field: func(c *Config) any { return &c.Disk.Every },
		check: positive(func(c *Config) time.Duration { return c.Disk.Every }),
	},

	{Name: "retention.completed", Doc: "How long the journal keeps the bodies of completed and cancelled tasks; the git mirror keeps them on.", field: func(c *Config) any { return &c.Retention.Completed }},
	{Name: "retention.failed", Doc: "The same for failed and abandoned tasks.", field: func(c *Config) any { return &c.Retention.Failed }},
	{Name: "retention.audit", Doc: "How long audit records are kept.", field: func(c *Config) any { return &c.Retention.Audit }},
	{
		Name: "retention.snapshots", Doc: "How long the snapshots of workspaces are kept after their task has ended.", field: func(c *Config) any { return &c.Retention.Snapshots },
		check: positive(func(c *Config) time.Duration { return c.Retention.Snapshots }),
	},
	{
		Name: "retention.every", Doc: "How often the journal is looked through for what may go.", field: func(c *Config) any { return &c.Retention.Every },
		check: positive(func(c *Config) time.Duration { return c.Retention.Every }),
	},

	{
		Name: "snapshots", Doc: "Whether what a workspace under git holds is written to its repository after each step that may change files, so that a task can be rewound and forked there.",
		Enum: []string{SnapshotsOn, SnapshotsOff}, field: func(c *Config) any { return &c.Snapshots },
	},
	{
		Name: "cassette.mode", Doc: "Record model traffic to a file, or replay it from there.", Enum: []string{CassetteOff, CassetteRecord, CassetteReplay},
		field: func(c *Config) any { return &c.Cassette.Mode }, check: checkCassette,
	},
	{Name: "cassette.path", Doc: "The cassette's file.", path: true, field: func(c *Config) any { return &c.Cassette.Path }},
	{
		Name: "api.listen", Doc: "Host and port at which the API answers over TCP as well, to who shows the token: 127.0.0.1:7790. Port 0 takes a free one; nothing: only the socket.",
		field: func(c *Config) any { return &c.API.Listen }, check: checkListen,
	},
	{Name: "api.remote", Doc: "Whether api.listen may be an address that other machines reach. Nothing is encrypted: use it within a tunnel, or behind a proxy with TLS.", field: func(c *Config) any { return &c.API.Remote }},
	{Name: "web.allow_private", Doc: "Hosts and networks that WebFetch may reach although they are private, separated by commas: localhost, 10.0.0.0/8.", field: func(c *Config) any { return &c.Web.AllowPrivate }},
	{Name: "prices.file", Doc: "Prices of models, as JSON, on top of the built-in ones.", path: true, field: func(c *Config) any { return &c.Prices.File }},
	{
		Name: "rehearsal.script", Doc: "Script the rehearsal model plays for tasks that bring none.", path: true,
		field: func(c *Config) any { return &c.Rehearsal.Script },
	},

	{
		Name: "knowledge.extract", Doc: "What becomes of passages that may hold a learning when a task ends: nothing, each is kept as it stands, or the small model makes learnings of them.",
		Enum: []string{ExtractOff, ExtractKeep, ExtractRefine}, field: func(c *Config) any { return &c.Knowledge.Extract },
	},
	{
		Name: "leases.wait", Doc: "How long a call waits for something that another task has before the model is told.",
		field: func(c *Config) any { return &c.Leases.Wait }, check: positive(func(c *Config) time.Duration { return c.Leases.Wait }),
	},
	{
		Name: "leases.hosts", Doc: "Calls of WebFetch that reach one host at the same time; 0 is no bound.",
		field: func(c *Config) any { return &c.Leases.Hosts }, check: atLeast(0, func(c *Config) int { return c.Leases.Hosts }),
	},
	{Name: "notify.command", Doc: "Shell command that is run when a task has ended or needs a person, and with the recovery report after each start, with TASK_HANDLE, TASK_TITLE, TASK_STATE, TASK_SUMMARY, TASK_TURNS, TASK_COST, TASK_DIR, TASK_ID and the whole as TASK_SENTENCE in its environment.", field: func(c *Config) any { return &c.Notify.Command }},
	{Name: "notify.title", Doc: "Whether a command that waits for a task says in the terminal's title how it ended, and meanwhile which task needs a person.", field: func(c *Config) any { return &c.Notify.Title }},
	{Name: "notify.bell", Doc: "Whether it rings the terminal's bell, too.", field: func(c *Config) any { return &c.Notify.Bell }},

	{
		Name: "sandbox.mode", Doc: "Whether commands of tools run in a sandbox: required refuses them where this machine cannot enforce all of it, preferred enforces what it can, off nothing.",
		Enum: []string{SandboxRequired, SandboxPreferred, SandboxOff}, field: func(c *Config) any { return &c.Sandbox.Mode },
	},
	{
		Name: "sandbox.profile", Doc: "What commands may change: nothing, the workspace and layers of their own over the caches of builds, or whatever the user may.",
		Enum: []string{"read-only", "workspace-write", "full"}, field: func(c *Config) any { return &c.Sandbox.Profile },
	},
	{
		Name: "sandbox.git", Doc: "Whether commands of a task with --in-place may write the .git of your checkout: read leaves commits to you; with write, what they leave there is cleaned up after each command. Tasks in worktrees of their own commit either way.",
		Enum: []string{GitRead, GitWrite}, field: func(c *Config) any { return &c.Sandbox.Git },
	},
	{
		Name: "sandbox.network", Doc: "Whom commands may reach: nobody but themselves, the hosts of sandbox.hosts through a proxy, or everybody.",
		Enum: []string{"off", "proxy", "full"}, field: func(c *Config) any { return &c.Sandbox.Network },
	},
	{Name: "sandbox.hosts", Doc: "Hosts that the proxy lets commands reach, separated by commas: *.github.com, proxy.golang.org. A private address must be named itself.", field: func(c *Config) any { return &c.Sandbox.Hosts }, check: checkHosts},
	{
		Name: "sandbox.read", Doc: "Files and folders of the home and of /etc that commands may read besides the built-in ones, separated by commas: ~/projects, ~/.config/go/env.",
		field: func(c *Config) any { return &c.Sandbox.Read }, check: wholePaths(func(c *Config) string { return c.Sandbox.Read }),
	},
	{
		Name: "sandbox.write", Doc: "Files and folders that commands may change, too, separated by commas; they win over what is hidden.",
		field: func(c *Config) any { return &c.Sandbox.Write }, check: wholePaths(func(c *Config) string { return c.Sandbox.Write }),
	},
	{
		Name: "sandbox.hide", Doc: "Files and folders that commands cannot read, besides the built-in ones, separated by commas; may hold *.",
		field: func(c *Config) any { return &c.Sandbox.Hide }, check: wholePaths(func(c *Config) string { return c.Sandbox.Hide }),
	},
	{Name: "sandbox.memory", Doc: "Memory of a command with all that it starts; 0 is three quarters of the machine's.", field: func(c *Config) any { return &c.Sandbox.Memory }},
	{Name: "sandbox.processes", Doc: "Processes of a command at the same time; 0 is no bound.", field: func(c *Config) any { return &c.Sandbox.Processes }},
	{
		Name: "sandbox.file_size", Doc: "Largest file that a command may write; 0 is no bound.", field: func(c *Config) any { return &c.Sandbox.FileSize },
		check: func(c *Config) error {
			if c.Sandbox.FileSize != 0 && c.Sandbox.FileSize < 16<<20 {
				return fmt.Errorf("must be 0 or at least 16MiB")
			}
			return nil
		},
	},
	{Name: "sandbox.free", Doc: "Room that a command must leave on each disk that it can write to, with an inode for every 16KiB of it, or it is ended; 0 is no bound. A disk that had less before does not count.", field: func(c *Config) any { return &c.Sandbox.Free }},

	{
		Name: "worktree.use", Doc: "Where a task in a git repository works: auto is in a worktree of its own, on a branch of its own, whose work is merged when it is done; off is in the folder itself, one task at a time, as with --in-place.",
		Enum: []string{WorktreeAuto, WorktreeOff}, project: true, field: func(c *Config) any { return &c.Worktree.Use },
	},
	{Name: "worktree.setup", Doc: "Shell command that makes a new worktree ready to work in, such as npm ci; it runs in the sandbox.", project: true, field: func(c *Config) any { return &c.Worktree.Setup }},
	{
		Name: "worktree.copy", Doc: "Files and folders of the project's own folder that every new worktree gets a copy of, because git does not have them, separated by commas: .env, config/local.yaml.",
		project: true, field: func(c *Config) any { return &c.Worktree.Copy }, check: checkCopies,
	},
	{
		Name: "worktree.trunk", Doc: "What becomes of the branch that the project's folder is on when work was merged into the integration branch: auto lets it follow by a fast-forward where the folder is clean, ask asks a person first, branch leaves it alone.",
		Enum: []string{TrunkAuto, TrunkAsk, TrunkBranch}, project: true, field: func(c *Config) any { return &c.Worktree.Trunk },
	},
	{
		Name: "worktree.conflicts", Doc: "Who resolves it when a task's branch cannot be brought onto new commits of the trunk: ask asks a person, agent leaves it to the task's agent, twice at most, and then asks.",
		Enum: []string{ConflictsAsk, ConflictsAgent}, project: true, field: func(c *Config) any { return &c.Worktree.Conflicts },
	},
	{
		Name: "worktree.clashes", Doc: "What is done when the work of two tasks changes the same lines: tell tells both agents, pause also pauses the one with the lower priority, or the younger, until the other has ended.",
		Enum: []string{ClashesTell, ClashesPause}, project: true, field: func(c *Config) any { return &c.Worktree.Clashes },
	},
	{
		Name: "worktree.failed", Doc: "What becomes of the worktree of a task that failed, was cancelled or abandoned: keep leaves it to look at until you prune it, remove removes it at once, after what is merged nowhere was kept; worktree restore, and resume, bring it back.",
		Enum: []string{FailedKeep, FailedRemove}, project: true, field: func(c *Config) any { return &c.Worktree.Failed },
	},
	{Name: "worktree.quota", Doc: "Room that the worktrees of a project may take before no new one is made; 0 is no bound.", project: true, field: func(c *Config) any { return &c.Worktree.Quota }},
	{
		Name: "worktree.warn", Doc: "How full the disk, by room or by inodes, or the quota may be, in percent, before status and doctor warn.", field: func(c *Config) any { return &c.Worktree.Warn },
		check: percent(func(c *Config) int { return c.Worktree.Warn }),
	},
	{
		Name: "worktree.stop", Doc: "How full the disk may be, by room or by inodes, in percent, before no new worktree is made.", field: func(c *Config) any { return &c.Worktree.Stop },
		check: percent(func(c *Config) int { return c.Worktree.Stop }),
	},

	{
		Name: "git.protected", Doc: "Branches whose history no task may overwrite or remove on another host, separated by commas; * stands for a part of a name.",
		field: func(c *Config) any { return &c.Git.Protected }, check: checkBranches,
	},

	{
		Name: "log.level", Doc: "What the daemon's log tells.", Enum: []string{"debug", "info", "warn", "error"},
		field: func(c *Config) any { return &c.Log.Level },
	},
	{
		Name: "log.max_size", Doc: "Size at which the log is rotated; three old ones are kept.", field: func(c *Config) any { return &c.Log.MaxSize },
		check: func(c *Config) error {
			if c.Log.MaxSize < 64<<10 {
				return fmt.Errorf("must be at least 64KiB")
			}
			return nil
		},
	},
}

// EnvName is the variable that sets the key: TASKDAEMON_ and its name.
func (k Key) EnvName() string {
	return "TASKDAEMON_" + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// Value is the key's value in c as it would be written in the file.
func (k Key) Value(c Config) string { return format(k.field(&c)) }

// Kind says in words what a value looks like.
func (k Key) Kind() string {
	if len(k.Enum) > 0 {
		return strings.Join(k.Enum, " or ")
	}
	if k.path {
		return "path"
	}
	return kindOf(k.field(&Config{}))
}

func find(name string) (Key, bool) {
	i := slices.IndexFunc(Keys, func(k Key) bool { return k.Name == name })
	if i < 0 {
		return Key{}, false
	}
	return Keys[i], true
}

// isSection reports whether keys stand below this name.
func isSection(name string) bool {
	return slices.ContainsFunc(Keys, func(k Key) bool { return strings.HasPrefix(k.Name, name+".") })
}

func checkThinking(c *Config) error {
	if c.Thinking < 0 {
		return fmt.Errorf("must not be negative")
	}
	if c.Thinking >= c.MaxTokens {
		return fmt.Errorf("must be less than max_tokens (%d)", c.MaxTokens)
	}
	return nil
}

func checkCassette(c *Config) error {
	if c.Cassette.Mode != CassetteOff && c.Cassette.Path == "" {
		return fmt.Errorf("%s needs cassette.path", c.Cassette.Mode)
	}
	return nil
}

// wholePaths refuses a list in which a path does not begin at the root or at home.
func wholePaths(get func(*Config) string) func(*Config) error {
	return func(c *Config) error {
		for p := range strings.SplitSeq(get(c), ",") {
			if p = strings.TrimSpace(p); p != "" && !strings.HasPrefix(p, "/") && p != "~" && !strings.HasPrefix(p, "~/") {
				return fmt.Errorf("%q must begin with / or ~/", p)
			}
		}
		return nil
	}
}

func filled(get func(*Config) string) func(*Config) error {
	return func(c *Config) error {
		if strings.TrimSpace(get(c)) == "" {
			return fmt.Errorf("must not be empty")
		}
		return nil
	}
}

func atLeast(least int, get func(*Config) int) func(*Config) error {
	return func(c *Config) error {
		if get(c) < least {
			return fmt.Errorf("must be at least %d", least)
		}
		return nil
	}
}

func positive(get func(*Config) time.Duration) func(*Config) error {
	return func(c *Config) error {
		if get(c) <= 0 {
			return fmt.Errorf("must be more than 0s")
		}
		return nil
	}
}
