// Package apps holds the manifests of the apps that come with the platform, so
// that it runs them without any file beside it. The apps themselves are the
// commands below this folder.
package apps

import "embed"

// Manifests has one <app>/manifest.yaml for each app.
//
//go:embed */manifest.yaml
var Manifests embed.FS
