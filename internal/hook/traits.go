package hook

const (
	toModelFirst = "told to the model before its next answer"
	toModelAfter = "told to the model with the result"
)

// Traits are all points, in the order of their groups.
var Traits = []Trait{
	{
		Point: TaskCreated, Group: Lifecycle, Subject: "kind", sample: sampleTaskCreated,
		Doc: "A task was added.",
	},
	{
		Point: TaskScheduled, Group: Lifecycle, Subject: "kind", sample: sampleTaskScheduled,
		Doc: "The scheduler picked the task up.",
	},
	{
		Point: TaskStarted, Group: Lifecycle, Subject: "kind", sample: sampleTaskStarted,
		Doc:    "A run of the task begins, before anything else happens in it.",
		Block:  "the task fails with the reason",
		Inject: toModelFirst,
	},
	{
		Point: TaskPaused, Group: Lifecycle, Subject: "by", sample: sampleTaskPaused,
		Doc: "The task was paused, by a person or a limit.",
	},
	{
		Point: TaskResumed, Group: Lifecycle, Subject: "by", sample: sampleTaskResumed,
		Doc: "A person let the task go on.",
	},
	{
		Point: TaskCompleted, Group: Lifecycle, sample: sampleTaskCompleted,
		Doc: "The task is done.",
	},
	{
		Point: TaskFailed, Group: Lifecycle, sample: sampleTaskFailed,
		Doc: "The task cannot go on.",
	},
	{
		Point: TaskCancelled, Group: Lifecycle, Subject: "by", sample: sampleTaskCancelled,
		Doc: "A person ended the task.",
	},

	{
		Point: PreContextAssembly, Group: Loop, sample: samplePreContextAssembly,
		Doc:    "What stands before the conversation is about to be put together: once, before the first call of the model.",
		Block:  "the task fails with the reason",
		Modify: []string{"tier", "model", "max_turns", "prompt", "labels"},
		Inject: "a part of the opening message",
	},
	{
		Point: PostContextAssembly, Group: Loop, sample: samplePostContextAssembly,
		Doc:    "What stands before the conversation is complete, and about to be recorded for all later calls.",
		Block:  "the task fails with the reason",
		Modify: []string{"system", "messages"},
	},
	{
		Point: PreLLMCall, Group: Loop, Subject: "model", sample: samplePreLLMCall,
		Doc:    "A request for the next answer of the conversation is about to be sent to the model. Calls beside it (summaries, digests, learnings) fire no hook.",
		Block:  "nothing is sent; the task pauses with the reason",
		Modify: []string{"model", "max_tokens", "thinking", "temperature", "answer"},
	},
	{
		Point: PostLLMCall, Group: Loop, Subject: "model", sample: samplePostLLMCall,
		Doc:    "The model's answer in the conversation is complete.",
		Modify: []string{"message", "learn"},
	},
	{
		Point: PreToolUse, Group: Loop, Subject: "tool_name", sample: samplePreToolUse,
		Doc:     "The model called a tool; nothing was judged or run yet.",
		Block:   "the call does not run; the model is told the reason as its result",
		Modify:  []string{"tool_input", "tool_response"},
		Inject:  toModelAfter,
		Permits: true,
	},
	{
		Point: PostToolUse, Group: Loop, Subject: "tool_name", sample: samplePostToolUse,
		Doc:    "A tool call ran and ended, well or not. One that was refused, denied or answered in its place did not run.",
		Block:  "the call has run; the model is told the reason in place of its result",
		Modify: []string{"tool_response", "learn"},
		Inject: toModelAfter,
	},
	{
		Point: PreUserPrompt, Group: Loop, Subject: "kind", sample: samplePreUserPrompt,
		Doc:    "A person is about to be asked for something.",
		Modify: []string{"prompt"},
	},
	{
		Point: PostUserInput, Group: Loop, Subject: "kind", sample: samplePostUserInput,
		Doc:    "A person said something to the task.",
		Block:  "the input is refused with the reason; the task goes on as if it had not come",
		Modify: []string{"message"},
		Inject: "told to the model with the message",
	},
	{
		Point: LoopIteration, Group: Loop, sample: sampleLoopIteration,
		Doc:    "A turn is over: the model answered and its tool calls have ended.",
		Block:  "the task pauses with the reason",
		Inject: toModelFirst,
	},

	{
		Point: LearningExtracted, Group: CrossTask, sample: sampleLearningExtracted,
		Doc:    "Something worth keeping was found in a conversation.",
		Block:  "it is not kept",
		Modify: []string{"kind", "text", "tags", "store"},
	},
	{
		Point: KnowledgeQuery, Group: CrossTask, sample: sampleKnowledgeQuery,
		Doc:    "Learnings of earlier tasks are about to be looked for.",
		Modify: []string{"query", "limit"},
	},
	{
		Point: KnowledgeInjected, Group: CrossTask, sample: sampleKnowledgeInjected,
		Doc:    "Learnings were chosen for the context.",
		Modify: []string{"learnings"},
	},
	{
		Point: ResourceLockWait, Group: CrossTask, Subject: "resource", sample: sampleResourceLockWait,
		Doc: "The task waits for something another one holds.",
	},
	{
		Point: ResourceLockAcquired, Group: CrossTask, Subject: "resource", sample: sampleResourceLockAcquired,
		Doc: "The task got hold of something.",
	},
	{
		Point: ResourceLockReleased, Group: CrossTask, Subject: "resource", sample: sampleResourceLockReleased,
		Doc: "The task gave something back.",
	},
	{
		Point: SubtaskSpawned, Group: CrossTask, Subject: "tool_name", sample: sampleSubtaskSpawned,
		Doc: "The task started a child.",
	},

	{
		Point: SecurityPolicyCheck, Group: Security, Subject: "tool_name", sample: sampleSecurityPolicyCheck,
		Doc:     "The policy judged a tool call.",
		Block:   "the call does not run; the model is told the reason as its result",
		Permits: true,
	},
	{
		Point: SecurityViolation, Group: Security, Subject: "tool_name", sample: sampleSecurityViolation,
		Doc: "The policy refused a tool call.",
	},
	{
		Point: PermissionRequest, Group: Security, Subject: "tool_name", sample: samplePermissionRequest,
		Doc:     "A tool call, or the validator of a planned task, needs a person's permission.",
		Block:   "the permission is denied; the model is told the reason",
		Modify:  []string{"prompt"},
		Permits: true,
	},
	{
		Point: PermissionGranted, Group: Security, Subject: "tool_name", sample: samplePermissionGranted,
		Doc: "A tool call was allowed.",
	},
	{
		Point: PermissionDenied, Group: Security, Subject: "tool_name", sample: samplePermissionDenied,
		Doc: "A tool call was not allowed.",
	},
	{
		Point: AnomalyDetected, Group: Security, Subject: "anomaly", sample: sampleAnomalyDetected,
		Doc:   "Something about the task's behaviour is odd.",
		Block: "the task pauses with the reason",
	},
}
