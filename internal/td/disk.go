package td

import "fmt"

// DiskUse is how full the disk of the state folder is, in percent.
type DiskUse struct {
	Dir    string `json:"dir"`
	Room   int    `json:"room"`
	Inodes int    `json:"inodes,omitempty"`
	Warn   int    `json:"warn"` // from where on people are told
}

// DiskFilled says that the disk of the state folder has come to a level that people should know of, or that it has room again.
type DiskFilled struct {
	DiskUse
	Level int `json:"level"` // 0: there is room again
}

// diskLevels are told in addition to the first one, if they lie above it.
var diskLevels = []int{95, 99}

// Level is the highest level that is reached, in percent; 0: there is room.
func (u DiskUse) Level() (level int) {
	for _, at := range append([]int{u.Warn}, diskLevels...) {
		if at >= u.Warn && max(u.Room, u.Inodes) >= at {
			level = at
		}
	}
	return level
}

// nearLevel is how far a disk must fall below a level before that counts as left, in percent: else a file that comes and goes is told each time.
const nearLevel = 2

// Near reports whether the disk is hardly less full than a level that still counts as one.
func (u DiskUse) Near(level int) bool {
	return level >= u.Warn && max(u.Room, u.Inodes) > level-nearLevel
}

func (u DiskUse) String() string {
	if u.Inodes > u.Room {
		return fmt.Sprintf("the disk of the state folder %s has used %d %% of its inodes; when they are used up, nothing can be recorded", u.Dir, u.Inodes)
	}
	return fmt.Sprintf("the disk of the state folder %s is %d %% full; when it is full, nothing can be recorded", u.Dir, u.Room)
}
