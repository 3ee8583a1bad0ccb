package apitest

import (
	"os"
	"os/user"
	"strconv"
)

// me is who does everything in the suite: a server takes that from the connection, whatever a request says.
var me = func() string {
	uid := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(uid); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + uid
}()
