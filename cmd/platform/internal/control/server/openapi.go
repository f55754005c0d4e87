package server

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
)

//go:embed openapi.yaml
var openAPISource []byte

// OpenAPI is the description of the API, an OpenAPI 3.1 document in JSON.
var OpenAPI = sync.OnceValues(func() ([]byte, error) {
	var doc any
	if err := yaml.Unmarshal(openAPISource, &doc); err != nil {
		return nil, fmt.Errorf("reading the API's description: %w", err)
	}
	return json.Marshal(doc)
})

func (a *api) openAPI(w http.ResponseWriter, r *http.Request) {
	doc, err := OpenAPI()
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(doc)
}
