package cli

import "github.com/spf13/cobra"

func newLoopCmd(a *app) *cobra.Command {
	return group("loop", "Watch and steer the loop of a task", "taskdaemon loop attach t-4k7q2m9x",
		newLoopAttachCmd(a), newLoopHistoryCmd(a), newLoopReplayCmd(a), newLoopInspectCmd(a), newLoopStepsCmd(a), newLoopRewindCmd(a), newLoopForkCmd(a),
		newLoopQueryCmd(a), newLoopShareCmd(a), newLoopNotifyCmd(a),
		newControlCmd(a, "loop ", controls["pause"]), newControlCmd(a, "loop ", controls["resume"]), newControlCmd(a, "loop ", controls["stop"]))
}
