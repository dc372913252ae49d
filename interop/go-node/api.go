package main

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// bodyMax is the maximum size of a request's body in bytes.
const bodyMax = 16 << 20

// handlers returns the part of samara's control API that a testbed uses.
func (n *node) handlers(p *plan) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { answer(w, n.status()) })
	mux.HandleFunc("GET /v1/schedule", func(w http.ResponseWriter, _ *http.Request) { answer(w, p.report()) })
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("content-type", "text/plain; version=0.0.4; charset=utf-8")
		n.counts.write(w, n.subscribed)
	})
	mux.HandleFunc("POST /v1/dial", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Address string }
		if read(w, r, &body) {
			if err := n.dial(body.Address); err != nil {
				refuse(w, err)
				return
			}
			answer(w, struct{}{})
		}
	})
	mux.HandleFunc("POST /v1/schedule", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Publications []publication }
		if read(w, r, &body) {
			numbers, err := p.add(body.Publications)
			if err != nil {
				refuse(w, err)
				return
			}
			answer(w, map[string][]int{"planned": numbers})
		}
	})
	return mux
}

func read(w http.ResponseWriter, r *http.Request, body any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyMax))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(body); err != nil {
		refuse(w, fmt.Errorf("the body: %w", err))
		return false
	}
	return true
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("content-type", "application/json")
	// A client that has closed the connection needs no answer.
	_ = json.NewEncoder(w).Encode(what)
}

func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}
