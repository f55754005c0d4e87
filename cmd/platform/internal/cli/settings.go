package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
)

// Settings are the flags with which a verb changes the settings of platform.yaml.
type Settings struct {
	Config              string   // the file; "" is platform.yaml, if there is one
	Manifests           []string // folders and files
	LogFormat, LogLevel string
}

// ConfigFlag gives a verb --config.
func (s *Settings) ConfigFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.Config, "config", "", "configuration file (default platform.yaml, if there is one)")
}

// ManifestFlags gives a verb --config and --manifests, with more to say of the latter.
func (s *Settings) ManifestFlags(cmd *cobra.Command, more string) {
	s.ConfigFlag(cmd)
	cmd.Flags().StringArrayVar(&s.Manifests, "manifests", nil, "folder or file with manifests, or \"builtin\" for the apps that come with the platform"+more+"; may be repeated")
}

// LogFlags gives a verb --log-format and --log-level, with more to say of the latter.
func (s *Settings) LogFlags(cmd *cobra.Command, more string) {
	set := settings.Defaults().Log
	cmd.Flags().StringVar(&s.LogFormat, "log-format", "", "text or json (default "+set.Format+")")
	cmd.Flags().StringVar(&s.LogLevel, "log-level", "", "debug, info, warn or error (default "+set.Level+more+")")
}

// Options are the settings of the configuration file under those that s and the
// environment give. The data folder becomes theirs.
func (c *Env) Options(s Settings) (settings.Options, error) {
	o := settings.Defaults()
	config := s.Config
	if config == "" {
		config = settings.DefaultConfig
	}
	if err := o.ReadConfig(config, s.Config != ""); err != nil {
		return o, Hint(err, "see docs/operate.md for the settings")
	}
	if len(s.Manifests) > 0 {
		o.Manifests = s.Manifests
	}
	if c.dataFlag != "" {
		o.Data = c.dataFlag
	} else if env := os.Getenv("AURORA_DATA"); env != "" {
		o.Data = env
	}
	c.Data = o.Data
	if s.LogFormat != "" {
		o.Log.Format = s.LogFormat
	}
	if s.LogLevel != "" {
		o.Log.Level = s.LogLevel
	}
	if err := o.Validate(); err != nil {
		return o, Usage(err)
	}
	return o, nil
}
