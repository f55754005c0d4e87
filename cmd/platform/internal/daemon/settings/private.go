package settings

import (
	"path/filepath"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/endpoint"
)

// Private are the files and folders of the platform, as absolute paths, that no
// confined server may reach, whether they exist or not.
func (o *Options) Private() (paths []string) {
	named := []string{o.Data, DefaultConfig, o.Policy, o.Gateway.Tokens, o.Auth.KeyFile, o.NATS.Creds, o.NATS.Key}
	if o.Policy == "" {
		named = append(named, "policy.yaml")
	}
	if src := o.Sources(); len(src.Dirs) > 0 {
		named = append(named, src.Dirs...)
	} else {
		named = append(named, DefaultManifests)
	}
	if socket, moved, err := endpoint.SocketPath(o.Data); err == nil && moved {
		named = append(named, filepath.Dir(socket))
	}
	for _, path := range named {
		if path == "" {
			continue
		}
		if abs, err := filepath.Abs(path); err == nil {
			paths = append(paths, abs)
		}
	}
	return paths
}
