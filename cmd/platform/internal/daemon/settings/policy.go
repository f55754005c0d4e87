package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// DefaultPolicy is the policy file that is read where no other is named.
const DefaultPolicy = "policy.yaml"

// Policy reads the policy file. Without one the built-in rules hold.
func Policy(o Options) (*rules.Rules, error) {
	path := o.Policy
	if path == "" {
		if _, err := os.Stat(DefaultPolicy); errors.Is(err, fs.ErrNotExist) {
			return rules.Default(), nil
		}
		path = DefaultPolicy
	}
	r, err := rules.Load(path)
	if err != nil {
		return nil, fmt.Errorf("reading the policy: %w", err)
	}
	return r, nil
}
