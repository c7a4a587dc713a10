package adminapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

const (
	jsonType  = "application/json"
	linesType = "application/x-ndjson"
	fileType  = "application/octet-stream"
	webSocket = "" // the connection changes its protocol, so there is no content
)

// errorsOfAll are the statuses that every operation can answer, besides 500, which huma adds. 400
// is for a request that is not text; 422 is for an unknown query parameter.
var errorsOfAll = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict,
	http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable,
}

// declareBodyErrors declares the statuses that only an operation with a body can answer.
func declareBodyErrors(_ *huma.OpenAPI, op *huma.Operation) {
	if op.RequestBody == nil {
		return
	}
	statuses := []int{http.StatusRequestTimeout, http.StatusRequestEntityTooLarge}
	if op.RequestBody.Content[jsonType] != nil {
		statuses = append(statuses, http.StatusUnsupportedMediaType)
	}
	for _, status := range statuses {
		problem := *op.Responses[strconv.Itoa(http.StatusBadRequest)]
		problem.Description = http.StatusText(status)
		op.Responses[strconv.Itoa(status)] = &problem
	}
}

// declareStream describes the answer of an operation that writes its answer itself.
func declareStream(op *huma.Operation, contentType string) {
	if contentType == webSocket {
		op.DefaultStatus = http.StatusSwitchingProtocols
		return
	}
	text := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	op.Responses = map[string]*huma.Response{"200": {Content: map[string]*huma.MediaType{contentType: text}}}
}

// described returns the description in OpenAPI 3.1, as JSON.
func described(h *huma.OpenAPI) ([]byte, error) {
	var out bytes.Buffer
	err := encode(&out, h)
	return out.Bytes(), err
}

// downgraded returns the description in OpenAPI 3.0.3, because many client generators cannot read a
// type that is a list, such as [integer, null].
func downgraded(h *huma.OpenAPI) ([]byte, error) {
	raw, err := h.Downgrade()
	if err != nil {
		return nil, fmt.Errorf("cannot describe the API in OpenAPI 3.0.3: %w", err)
	}
	var description any
	if err := json.Unmarshal(raw, &description); err != nil {
		return nil, fmt.Errorf("cannot describe the API in OpenAPI 3.0.3: %w", err)
	}
	completeDowngrade(description)
	var out bytes.Buffer
	err = encode(&out, description)
	return out.Bytes(), err
}

// completeDowngrade completes huma's Downgrade: OpenAPI 3.0.3 calls base64 "byte", has no
// patternDescription, and ignores everything beside a $ref.
func completeDowngrade(value any) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			completeDowngrade(item)
		}
	case map[string]any:
		for _, item := range v {
			completeDowngrade(item)
		}
		if v["format"] == "base64" {
			v["format"] = "byte"
		}
		if _, isText := v["patternDescription"].(string); isText {
			delete(v, "patternDescription")
		}
		if ref, isText := v["$ref"].(string); isText && len(v) > 1 {
			delete(v, "$ref")
			v["allOf"] = []any{map[string]any{"$ref": ref}}
		}
	}
}
