package api

import "time"

// Calls is how the calls of models are doing: what goes on, and what is out of use for a time.
type Calls struct {
	InFlight int        `json:"in_flight"`
	Waiting  int        `json:"waiting"`           // for their turn
	Off      []OffModel `json:"off,omitempty"`     // models that failed too often
	Resting  []Resting  `json:"resting,omitempty"` // keys
}

// OffModel is a model that is not asked while those it falls back on are.
type OffModel struct {
	Model    string    `json:"model"` // with its provider
	Failures int       `json:"failures"`
	Until    time.Time `json:"until"` // then one call tries it out
}

// Resting is a key that is not used.
type Resting struct {
	Provider string    `json:"provider"`
	Key      string    `json:"key"` // its last characters
	Why      string    `json:"why"`
	Until    time.Time `json:"until"`
}
