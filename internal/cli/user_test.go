package cli

import (
	"os"
	"os/user"
	"strconv"
)

// socketUser is whom a daemon takes for who types, whatever the environment says.
func socketUser() string {
	uid := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(uid); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + uid
}
