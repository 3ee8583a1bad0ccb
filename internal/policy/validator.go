package policy

import (
	"crypto/sha256"
	"encoding/hex"
)

// Validator is the name that rules about the commands that check planned tasks go by. A rule for it is bound to the text of a
// command: others may write another one into the task.
const Validator = "Validator"

// ValidatorBound is what a rule about a validator is bound to.
func ValidatorBound(command string) string {
	sum := sha256.Sum256([]byte(command))
	return "sha256:" + hex.EncodeToString(sum[:])[:40]
}

// ValidatorRule is the pattern of a rule about one validator.
func ValidatorRule(command string) string { return Validator + "(" + ValidatorBound(command) + ")" }
