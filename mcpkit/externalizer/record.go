package externalizer

import (
	"encoding/json"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Stop says why a run ended. The values are stable.
type Stop string

const (
	StopAnswered  Stop = "answered"
	StopSteps     Stop = "max_steps"      // the model still wanted tools
	StopTokens    Stop = "max_tokens"     // of the run
	StopLength    Stop = "length"         // Answer is cut off: the token limit of one completion, or the model's
	StopFiltered  Stop = "content_filter" // Answer is what had passed
	StopRefused   Stop = "refused"
	StopEmpty     Stop = "empty"          // neither text nor calls
	StopContext   Stop = "context_length" // the conversation has become too long for the model
	StopModel     Stop = "model_error"    // the endpoint refused, or could not be reached within the retries
	StopTimeout   Stop = "timeout"        // of the run
	StopCancelled Stop = "cancelled"
	StopFailed    Stop = "failed" // the catalogue could not be had, or there was nothing to ask
)

// halt is an error that says what Stop it is.
type halt struct {
	stop Stop
	err  error
}

func (h *halt) Error() string { return h.err.Error() }
func (h *halt) Unwrap() error { return h.err }

// Result is a run as far as it came. It marshals to the transcript.
type Result struct {
	Stop     Stop                           `json:"stop"`
	Answer   string                         `json:"answer"`
	Steps    []Step                         `json:"steps"`
	Usage    Usage                          `json:"usage"`
	Messages []openai.ChatCompletionMessage `json:"messages"` // the conversation without the system message
	Sources  []string                       `json:"sources"`  // the gate's ids of the calls whose words are in it
	// Extras are members beyond the API that the endpoint gave calls, such as
	// Gemini's thought signatures, by the calls' ids in Messages. It gets them back
	// with the calls; without them it may refuse to go on.
	Extras map[string]json.RawMessage `json:"extras,omitempty"`
}

// Step is one completion and what came of it.
type Step struct {
	Number      int    `json:"step"`        // from 1
	Tools       int    `json:"tools"`       // that were offered
	Fingerprint string `json:"fingerprint"` // of what was offered
	Retries     int    `json:"retries"`
	Finish      string `json:"finish_reason"` // as the endpoint said it; may be empty
	Text        string `json:"text,omitempty"`
	Calls       []Call `json:"calls,omitempty"`
	Usage       Usage  `json:"usage"`
}

// Usage counts tokens.
type Usage struct {
	PromptTokens     int  `json:"prompt_tokens"`
	CompletionTokens int  `json:"completion_tokens"`
	TotalTokens      int  `json:"total_tokens"`
	Estimated        bool `json:"estimated,omitempty"` // the endpoint did not say: four bytes are taken for one
}

func (u *Usage) add(v Usage) {
	u.PromptTokens += v.PromptTokens
	u.CompletionTokens += v.CompletionTokens
	u.TotalTokens += v.TotalTokens
	u.Estimated = u.Estimated || v.Estimated
}

// Call is one tool call that a model wanted.
type Call struct {
	ID         string          `json:"id"`                // in the conversation
	CallID     string          `json:"call_id,omitempty"` // at the gate; empty when it was not taken there
	Name       string          `json:"name"`              // as the model said it
	Tool       catalog.ID      `json:"tool,omitzero"`
	Arguments  json.RawMessage `json:"arguments,omitempty"` // as they went to the gate
	Repairs    []string        `json:"repairs,omitempty"`   // what of the model's call had to be put right
	IsError    bool            `json:"is_error"`            // it failed, or the tool says that it did
	Error      *fault.Error    `json:"error,omitempty"`     // why there is no result
	Flags      []string        `json:"flags,omitempty"`     // what is odd about the result, see [host.Result]
	DurationMS int64           `json:"duration_ms"`         // without WaitedMS
	WaitedMS   int64           `json:"waited_ms,omitempty"` // for a person's answer
}

// EventKind names what an Event tells.
type EventKind string

const (
	Asking       EventKind = "asking"        // a completion is about to be asked for
	Retrying     EventKind = "retrying"      // it failed, and is asked for again after Delay
	Answered     EventKind = "answered"      // it is there; Step has everything but its calls
	CallStarted  EventKind = "call_started"  // a call goes to the gate
	CallWaiting  EventKind = "call_waiting"  // a person is asked; the call's Error says so, with approval_id in its Data
	CallFinished EventKind = "call_finished" // with its outcome; also of calls that never started
)

// Event is one thing that happened in a run.
type Event struct {
	Kind  EventKind
	Step  Step          // its Number is always set
	Call  Call          // of CallStarted and CallFinished
	Delay time.Duration // of Retrying
	Err   error         // of Retrying: what failed
}

// emit tells the observer; calls that run beside each other take turns.
func (r *run) emit(e Event) {
	if r.o.OnEvent == nil {
		return
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	r.o.OnEvent(e)
}
