package hook

import (
	"encoding/json"
	"time"

	"taskdaemon/internal/td"
)

// The examples all tell of one task, half-way through its work.
var (
	sampleHead = Head{
		TaskID: "01990b1e-7c4a-7d3e-9a51-3f1c8e6b2a70", Handle: "t-9rf3m5ag",
		Title: "Fix the flaky test", RunID: "01990b1e-8d20-7f6b-b1c4-5a9e0d7c3f12",
		Cwd: "/home/ada/shop", Iteration: 1, Turn: 3, At: time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC),
	}
	sampleAsked = Asked{
		Kind: td.KindTask, Prompt: "Find out why TestCheckout fails now and then, and fix it.",
		Mode: td.Autonomous, Tier: td.Worker, Priority: 2, Labels: []string{"tests"}, Validator: "go test ./...",
	}
	sampleSpent = Spent{Usage: td.Usage{Input: 1204, Output: 980, CacheRead: 40312, CacheWrite: 2210}, CostUSD: 0.0389}
	sampleCall  = ToolCall{
		ToolName: "Bash", ToolUseID: "toolu_01A09q90qw90lq917835lq9",
		ToolInput: json.RawMessage(`{"command":"go test -run TestCheckout -count 20 ./cart && git status --short","timeout":120000}`),
	}
	sampleLock    = Lock{Resource: "repo:/home/ada/shop", LockMode: "exclusive", Holder: "t-4kq0v2wd", WaitedMS: 1500}
	sampleRequest = td.RequestID("01990b1f-02b7-7a11-8c3d-6e4f5a0b9c8d")
	sampleMessage = td.Message{Role: td.Assistant, Blocks: []td.Block{
		{Type: td.TextBlock, Text: "The test shares a clock with another one. I run it alone first."},
		{Type: td.ToolUseBlock, ID: sampleCall.ToolUseID, Name: sampleCall.ToolName, Input: sampleCall.ToolInput},
	}}
)

var (
	sampleTaskCreated   = TaskCreatedPayload{Head: sampleNew(), Asked: sampleAsked}
	sampleTaskScheduled = TaskScheduledPayload{Head: sampleNew(), Asked: sampleAsked, WaitedMS: 240}
	sampleTaskStarted   = TaskStartedPayload{Head: sampleHead, Asked: sampleAsked}
	sampleTaskPaused    = TaskPausedPayload{sampleHead, Done{By: "ada", Cause: "lunch"}}
	sampleTaskResumed   = TaskResumedPayload{sampleHead, Done{By: "ada"}}
	sampleTaskCompleted = TaskCompletedPayload{
		Head: sampleHead, Summary: "TestCheckout no longer shares a clock with TestRefund.", Spent: sampleSpent,
	}
	sampleTaskFailed = TaskFailedPayload{
		Head: sampleHead, Error: "model: 401: invalid x-api-key", Hint: "export ANTHROPIC_API_KEY=…",
		Recoverable: true, Spent: sampleSpent,
	}
	sampleTaskCancelled = TaskCancelledPayload{sampleHead, Done{By: "ada"}, sampleSpent}

	samplePreContextAssembly  = PreContextAssemblyPayload{Head: sampleHead, Tier: td.Worker, MaxTurns: 50, Prompt: sampleAsked.Prompt, Labels: sampleAsked.Labels}
	samplePostContextAssembly = PostContextAssemblyPayload{
		Head: sampleHead, System: "You are a careful engineer.",
		Messages: []td.Message{
			{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: sampleAsked.Prompt}}},
		},
		Tokens: 14210, Window: 180000, Hash: "9a0e4c71b2d85f36",
	}
	samplePreLLMCall = PreLLMCallPayload{
		Head: sampleHead, Model: "claude-sonnet-5", Tier: td.Worker, MaxTokens: 16384, Messages: 7, Tokens: 14210,
		CostUSD: 0.2884, Hash: "b3c1f0a2d4e59687",
	}
	samplePostLLMCall = PostLLMCallPayload{
		Head: sampleHead, Model: "claude-sonnet-5", StopReason: td.StopToolUse, Message: sampleMessage,
		Usage: td.Usage{Input: 120, Output: 96, CacheRead: 14090}, CostUSD: 0.006, TookMS: 2140, Hash: "5d7b13f0c94ea286",
	}
	samplePreToolUse  = PreToolUsePayload{Head: sampleHead, ToolCall: sampleCall}
	samplePostToolUse = PostToolUsePayload{
		Head: sampleHead, ToolCall: sampleCall, ToolResponse: ToolResponse{Content: "ok  \tshop/cart\t0.8s\n"}, TookMS: 812,
	}
	samplePreUserPrompt = PreUserPromptPayload{sampleHead, Question{
		RequestID: sampleRequest, Kind: td.AskQuestion, Prompt: "May the test take a second longer?", Options: []string{td.Yes, td.No},
	}}
	samplePostUserInput = PostUserInputPayload{
		Head: sampleHead, RequestID: sampleRequest, Kind: td.AskQuestion, Choice: td.Yes, Message: "Yes, but no more than that.", By: "ada",
	}
	sampleLoopIteration = LoopIterationPayload{
		Head: sampleHead, StopReason: td.StopToolUse, Tools: []string{"Read", "Bash"}, Failures: 1, Spent: sampleSpent,
	}

	sampleLearningExtracted = LearningExtractedPayload{
		Head: sampleHead, Kind: td.KindDecision, Text: "Tests of shop/cart must use the fake clock.", Tags: []string{"tests", "clock"},
		Files: []string{"cart/clock_test.go"}, From: "tool", Store: "/home/ada/shop",
	}
	sampleKnowledgeQuery    = KnowledgeQueryPayload{Head: sampleHead, Query: "TestCheckout fails now and then", Limit: 5}
	sampleKnowledgeInjected = KnowledgeInjectedPayload{
		Head: sampleHead, Query: "TestCheckout fails now and then",
		Learnings: []Learning{{ID: "l-07", Kind: td.KindDecision, Text: "Tests of shop/cart must use the fake clock.", Source: "t-4kq0v2wd", Tags: []string{"tests"}}},
	}
	sampleResourceLockWait     = ResourceLockWaitPayload{sampleHead, sampleLock}
	sampleResourceLockAcquired = ResourceLockAcquiredPayload{sampleHead, sampleLock}
	sampleResourceLockReleased = ResourceLockReleasedPayload{sampleHead, sampleLock}
	sampleSubtaskSpawned       = SubtaskSpawnedPayload{
		Head: sampleHead, ToolName: "Explore", Child: "01990b20-1f3c-7b52-a6d8-9c0e7f1b2d34", ChildHandle: "t-7h1pftd4",
		Prompt: "Where is the clock of the tests made?", Depth: 1,
	}

	sampleSecurityPolicyCheck = SecurityPolicyCheckPayload{Head: sampleHead, ToolCall: sampleCall, Verdict: "allow", Rule: "commands.tests"}
	sampleSecurityViolation   = SecurityViolationPayload{
		Head: sampleHead, ToolCall: sampleCall, Rule: "paths.protected", Cause: "/etc/hosts is outside the workspace",
	}
	samplePermissionRequest = PermissionRequestPayload{
		Head: sampleHead, ToolCall: sampleCall, RequestID: sampleRequest, Prompt: "Allow Bash: go test -run TestCheckout -count 20 ./cart?",
	}
	samplePermissionGranted = PermissionGrantedPayload{sampleHead, sampleCall, Done{By: "ada"}}
	samplePermissionDenied  = PermissionDeniedPayload{sampleHead, sampleCall, Done{By: "ada", Cause: "not on a Friday"}}
	sampleAnomalyDetected   = AnomalyDetectedPayload{Head: sampleHead, Anomaly: "write_rate", Detail: "214 files written in a minute"}
)

// sampleNew is the head of a task that has not run yet.
func sampleNew() Head {
	h := sampleHead
	h.RunID, h.Iteration, h.Turn = "", 0, 0
	return h
}
