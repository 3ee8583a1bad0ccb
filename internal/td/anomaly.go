package td

// Anomaly is something a task does not usually do (G-7). Values are on disk.
type Anomaly string

// The anomalies.
const (
	WriteRate   Anomaly = "write_rate"
	CommandRate Anomaly = "command_rate"
	OddPath     Anomaly = "odd_path" // outside the workspace, for the first time
	NewHost     Anomaly = "new_host" // for the first time
	MemorySpike Anomaly = "memory"
	CPUSpike    Anomaly = "cpu"
)

// AnomalyAction is what follows from one. Values are on disk.
type AnomalyAction string

// The actions.
const (
	AnomalyWarn  AnomalyAction = "warn"  // it is recorded and told
	AnomalyPause AnomalyAction = "pause" // and the task is paused
)

// ReachHost is how a host is marked among the places a call reaches; the others are folders.
const ReachHost = "host "
