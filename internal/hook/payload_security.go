package hook

import (
	"fmt"
	"strings"

	"taskdaemon/internal/td"
)

// SecurityPolicyCheckPayload is the payload of SecurityPolicyCheck.
type SecurityPolicyCheckPayload struct {
	Head
	ToolCall
	Verdict string `json:"verdict" doc:"what the policy says: allow, ask or deny"`
	Rule    string `json:"rule,omitempty" doc:"the rule that says it"`
}

// SecurityViolationPayload is the payload of SecurityViolation.
type SecurityViolationPayload struct {
	Head
	ToolCall
	Rule  string `json:"rule" doc:"the rule that was broken"`
	Cause string `json:"cause" doc:"how"`
}

// PermissionRequestPayload is the payload of PermissionRequest.
type PermissionRequestPayload struct {
	Head
	ToolCall
	RequestID td.RequestID `json:"request_id" doc:"the request"`
	Prompt    string       `json:"prompt" doc:"the words shown to the person"`
}

func (p PermissionRequestPayload) check() error {
	if strings.TrimSpace(p.Prompt) == "" {
		return fmt.Errorf("prompt is empty")
	}
	return nil
}

// PermissionGrantedPayload is the payload of PermissionGranted.
type PermissionGrantedPayload struct {
	Head
	ToolCall
	Done
}

// PermissionDeniedPayload is the payload of PermissionDenied.
type PermissionDeniedPayload struct {
	Head
	ToolCall
	Done
}

// AnomalyDetectedPayload is the payload of AnomalyDetected.
type AnomalyDetectedPayload struct {
	Head
	Anomaly string `json:"anomaly" doc:"which one: write_rate, command_rate, odd_path, new_host, memory, cpu"`
	Detail  string `json:"detail" doc:"what was seen"`
}

// Point is SecurityPolicyCheck.
func (SecurityPolicyCheckPayload) Point() Point { return SecurityPolicyCheck }

// Point is SecurityViolation.
func (SecurityViolationPayload) Point() Point { return SecurityViolation }

// Point is PermissionRequest.
func (PermissionRequestPayload) Point() Point { return PermissionRequest }

// Point is PermissionGranted.
func (PermissionGrantedPayload) Point() Point { return PermissionGranted }

// Point is PermissionDenied.
func (PermissionDeniedPayload) Point() Point { return PermissionDenied }

// Point is AnomalyDetected.
func (AnomalyDetectedPayload) Point() Point { return AnomalyDetected }
