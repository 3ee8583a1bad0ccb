package mirror

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// recordsFolder holds the records themselves, word for word, beside what people read: from them a journal that was lost
// is made again. A file has the records of one commit, and is named by the first.
const recordsFolder = "records"

// keep remembers a record for the next commit. Its place in the whole journal is the journal's own affair: a commit
// depends on nothing but the task's events.
func (s *state) keep(ev td.Record) error {
	ev.Cursor = 0
	raw, err := ev.MarshalJSON() // which package json would go through once more
	if err != nil {
		return fmt.Errorf("write record %d: %w", ev.Seq, err)
	}
	if len(s.kept) == 0 {
		s.keptFrom = ev.Seq
	}
	s.kept = append(s.kept, string(raw), "\n")
	return nil
}

// records is the file with what was remembered.
func (s *state) records() git.File {
	f := git.File{Path: fmt.Sprintf("%s/%08d.jsonl", recordsFolder, s.keptFrom), Parts: s.kept}
	s.kept = nil
	return f
}

// parseRecords reads a file of records, which must be those of a task from one number on without gaps.
func parseRecords(raw []byte, task td.TaskID, from uint64) ([]td.Event, error) {
	var out []td.Event
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, len(raw)+1)
	for lines.Scan() {
		var ev td.Event
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			return nil, fmt.Errorf("read record %d: %w", from, err)
		}
		if ev.Task != task || ev.Seq != from {
			return nil, fmt.Errorf("read record %d: it is the record %d of task %s", from, ev.Seq, ev.Task)
		}
		out = append(out, ev)
		from++
	}
	return out, lines.Err()
}
