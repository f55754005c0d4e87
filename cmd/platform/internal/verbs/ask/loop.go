package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer"
	export "github.com/aurorabot-dev/platform/mcpkit/openai"
)

// newLoop prepares the loop of the flags, and completes them.
func newLoop(ctx context.Context, c *cli.Env, o *options) (*externalizer.Loop, error) {
	key := os.Getenv("OPENAI_API_KEY")
	if o.keyFile != "" {
		text, err := readFile(o.keyFile)
		if err != nil {
			return nil, err
		}
		if key = strings.TrimSpace(text); key == "" {
			return nil, fmt.Errorf("there is no key in %s", o.keyFile)
		}
	}
	system, err := readFile(o.system)
	if err != nil {
		return nil, err
	}
	set := settings.Defaults()
	if err := set.ReadConfig(settings.DefaultConfig, false); err != nil {
		return nil, err
	}
	o.base = cmp.Or(o.base, os.Getenv("OPENAI_BASE_URL"), set.Ask.BaseURL, externalizer.DefaultBaseURL)
	o.model = cmp.Or(o.model, os.Getenv("OPENAI_MODEL"), set.Ask.Model)
	o.profile = cmp.Or(o.profile, set.Ask.Profile, export.DefaultProfile)
	if err := cli.OneOf("profile", o.profile, export.Profiles()...); err != nil {
		return nil, err
	}
	if o.base == externalizer.DefaultBaseURL && key == "" {
		return nil, cli.Hint(errors.New("there is no key for "+o.base), "set OPENAI_API_KEY, or name a file with --key-file")
	}
	if o.model == "" {
		return nil, cli.Usage(errors.New("the endpoint's model has to be named: with --model, OPENAI_MODEL, or ask.model in platform.yaml"))
	}
	for name, n := range map[string]int64{"max-steps": int64(o.steps), "max-tokens": int64(o.tokens), "timeout": int64(o.timeout)} {
		if n <= 0 {
			return nil, cli.Usage(fmt.Errorf("--%s must be more than 0", name))
		}
	}
	client, err := c.Dial()
	if err != nil {
		return nil, err
	}
	api := &apiCaller{api: client}
	if o.servers, err = api.servers(ctx, o.servers); err != nil {
		return nil, err
	}
	w := &watcher{c: c}
	opts := externalizer.Options{
		Caller: api, BaseURL: o.base, Key: key, Model: o.model, Profile: o.profile, Servers: o.servers, System: system, Prefix: api.prefix,
		Stream: !o.whole, MaxSteps: o.steps, MaxTokens: o.tokens, MaxAnswerTokens: o.answerTokens, Timeout: o.timeout, OnEvent: w.event,
	}
	if c.Out.Terminal() && !c.JSON {
		opts.OnText = w.text
	}
	opts.Wait = c.Err.Terminal() // someone is there to see that a person is asked
	l, err := externalizer.New(opts)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return l, nil
}
