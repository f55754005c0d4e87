package ask

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// inputRequest is one of the requests in an input_required result.
type inputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// inputRequests are those of a result, by their keys, and not too many.
func inputRequests(subject string, r *features.Result) (map[string]inputRequest, error) {
	var asked map[string]inputRequest
	if raw := r.Member("inputRequests"); len(raw) > 0 {
		if err := json.Unmarshal(raw, &asked); err != nil {
			return nil, fault.New(fault.Protocol, "%s asks for input in a way that cannot be read: %v", subject, err)
		}
	}
	if len(asked) > maxQuestions {
		return nil, fault.New(fault.InputRequired, "%s asks %d things at once; the limit is %d", subject, len(asked), maxQuestions)
	}
	return asked, nil
}

func withoutLeave(subject, method string) error {
	return fault.New(fault.InputRequired, "%s asks for input (%.60s), which is not allowed for its server", subject, method)
}

func refusedInput(subject string, why error) error {
	return fault.New(fault.InputRequired, "%s asks for input that is refused: %s", subject, fault.From(why).Message)
}

// Answer answers an input_required result (2026-07-28, multi round-trip
// requests): what the next request is to carry.
func (a *Asker) Answer(session *session.Session, r *features.Result) (features.With, error) {
	w := features.With{RequestState: r.Member("requestState")}
	asked, err := inputRequests(a.Subject, r)
	if err != nil {
		return w, err
	}
	if len(asked) == 0 { // the server is busy and wants to be asked again
		if a.shed++; a.shed > maxShed || len(w.RequestState) == 0 {
			return w, fault.New(fault.Busy, "%s puts the call off and asks for nothing", a.Subject).Retry()
		}
		pause := time.NewTimer(shedPause << a.shed)
		defer pause.Stop()
		select {
		case <-pause.C:
			return w, nil
		case <-a.Context.Done():
			return w, fault.New(fault.Cancelled, "the caller gave %s up", a.Subject)
		}
	}
	a.shed = 0
	responses := map[string]json.RawMessage{}
	var questions []signal.Question
	for _, id := range slices.Sorted(maps.Keys(asked)) {
		request := asked[id]
		if !session.Offers(request.Method) {
			return w, withoutLeave(a.Subject, request.Method)
		}
		if request.Method == handshake.MethodRoots {
			responses[id] = session.RootsResult()
			continue
		}
		q, err := a.question(id, request.Method, request.Params)
		if err != nil {
			return w, refusedInput(a.Subject, err)
		}
		questions = append(questions, q)
	}
	if len(questions) > 0 {
		answers, err := a.Ask(a.Context, questions)
		if err != nil {
			return w, err
		}
		for _, q := range questions {
			if responses[q.ID], err = answers[q.ID].result(q); err != nil {
				return w, err
			}
		}
	}
	w.InputResponses, _ = json.Marshal(responses) // raw JSON always marshals
	return w, nil
}

// codeURLFirst is the error of a server that did nothing because a person has to
// visit pages first (2025-11-25, client/elicitation: URL elicitation required).
const codeURLFirst = -32042

// VisitFirst has a person visit the pages that a server wants visited before it does
// anything, as err of a call says. Again says that all were visited and the call is
// to be made again. Otherwise the error says why not; it is err where err is another
// error, or the server may not ask a person.
func (a *Asker) VisitFirst(session *session.Session, err error) (again bool, _ error) {
	pages := a.pages(session, err)
	if len(pages) == 0 {
		return false, err
	}
	answers, err := a.Ask(a.Context, pages)
	if err != nil {
		return false, err
	}
	for _, q := range pages {
		if action := answers[q.ID].Action; action != Accept {
			return false, fault.New(fault.InputRequired, "%s needs a visit to %s first: the answer was %s", a.Subject, q.Host, action)
		}
	}
	return true, nil
}

// pages are the questions that err asks, none where it is another error, or the
// server may not ask a person.
func (a *Asker) pages(session *session.Session, err error) []signal.Question {
	f := fault.From(err)
	if f == nil || f.Code != fault.Protocol {
		return nil
	}
	var e struct {
		Code int `json:"code"`
		Data struct {
			Elicitations []json.RawMessage `json:"elicitations"`
		} `json:"data"`
	}
	if json.Unmarshal(f.Data, &e) != nil || e.Code != codeURLFirst || len(e.Data.Elicitations) > maxQuestions || !session.Offers(handshake.MethodElicit) {
		return nil
	}
	var questions []signal.Question
	for i, raw := range e.Data.Elicitations {
		q, err := a.question(fmt.Sprint(i+1), handshake.MethodElicit, raw)
		if err != nil || q.Kind != URLQuestion {
			return nil
		}
		questions = append(questions, q)
	}
	return questions
}
