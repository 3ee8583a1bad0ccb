package td

import "time"

// CommandType is what a person wants of a task. Values are on disk.
type CommandType string

// The commands.
const (
	CmdMessage CommandType = "message"
	CmdAnswer  CommandType = "answer"
	CmdPause   CommandType = "pause"
	CmdResume  CommandType = "resume"
	CmdCancel  CommandType = "cancel"
	CmdRetry   CommandType = "retry"   // drop the last answer and call the model again
	CmdModel   CommandType = "model"   // use another model or tier from the next call on
	CmdMode    CommandType = "mode"    // change the permission mode
	CmdCompact CommandType = "compact" // make the conversation smaller before the next call
	CmdExpire  CommandType = "expire"
	CmdOrder   CommandType = "order"  // go on under the order of a run over the graph
	CmdRebase  CommandType = "rebase" // bring the task's branch onto a newer commit, which Text names
	CmdRewind  CommandType = "rewind" // go back to an earlier step, files and conversation
	// CmdLimit has a run over the graph take over a task that another one started, within the limit of its own.
	CmdLimit CommandType = "limit"
	// CmdInterrupt lets a run go of the task with words that end its iteration: the next begins afresh, with them.
	CmdInterrupt CommandType = "interrupt"
	CmdMail      CommandType = "mail"    // read a message
	CmdQueried   CommandType = "queried" // book a question that was answered
)

// Command waits in a task's inbox until the holder of its claim takes it. It is posted without a claim
// and counts once, by key.
type Command struct {
	Key    string      `json:"key"`
	Type   CommandType `json:"type"`
	At     time.Time   `json:"at"`
	By     string      `json:"by,omitempty"`
	Text   string      `json:"text,omitempty"`   // message: the words; cancel, pause: the reason; model: its name; rebase: the commit
	Answer *Answer     `json:"answer,omitempty"` // answer, expire
	Order  *Order      `json:"order,omitempty"`  // order, limit
	Mail   *Mail       `json:"mail,omitempty"`   // mail; its words are Text
	Query  *Queried    `json:"query,omitempty"`  // queried
	Rewind *Rewind     `json:"rewind,omitempty"` // rewind
}
