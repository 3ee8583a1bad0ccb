package td

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// CheckTemperature says what is wrong with the temperature of a call: it is a number from 0 to 2, or empty for the provider's own.
func CheckTemperature(t json.Number) error {
	if t == "" {
		return nil
	}
	if f, err := strconv.ParseFloat(string(t), 64); err != nil || !json.Valid([]byte(t)) || f < 0 || f > 2 {
		return fmt.Errorf("temperature %q is no number from 0 to 2", string(t))
	}
	return nil
}
