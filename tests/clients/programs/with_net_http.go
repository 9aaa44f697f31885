// net/http of Go: every way to store and read a value, whole and cut off. Says what did not hold.
package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

var at = os.Args[1]

func check(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func send(method, key string, body io.Reader, fields ...string) *http.Response {
	request, err := http.NewRequest(method, at+"/"+key, body)
	must(err)
	for n := 0; n < len(fields); n += 2 {
		request.Header.Set(fields[n], fields[n+1])
	}
	answer, err := http.DefaultClient.Do(request)
	must(err)
	return answer
}

func status(answer *http.Response) int {
	defer answer.Body.Close()
	_, err := io.Copy(io.Discard, answer.Body)
	must(err)
	return answer.StatusCode
}

func put(key, value string, fields ...string) int {
	return status(send("PUT", key, bytes.NewReader([]byte(value)), fields...))
}

func get(key string, fields ...string) []byte {
	answer := send("GET", key, nil, fields...)
	defer answer.Body.Close()
	value, err := io.ReadAll(answer.Body)
	must(err)
	return value
}

func whole(value []byte) {
	must(os.WriteFile("value", value, 0o600))
	file, err := os.Open("value")
	must(err)
	info, err := file.Stat()
	must(err)
	request, err := http.NewRequest("PUT", at+"/file", file)
	must(err)
	request.ContentLength = info.Size()
	answer, err := http.DefaultClient.Do(request)
	must(err)
	check(status(answer) == 200, "a file")
	check(bytes.Equal(get("file"), value), "the file")
	// A reader of unknown length is sent in chunks.
	check(status(send("PUT", "pieces", io.MultiReader(bytes.NewReader(value)))) == 200, "pieces")
	check(bytes.Equal(get("pieces"), value), "the pieces")
	check(bytes.Equal(get("file", "Range", "bytes=100-199"), value[100:200]), "a range")
}

func conditional() {
	stored := send("PUT", "register", bytes.NewReader([]byte("one")))
	tag := stored.Header.Get("ETag")
	check(status(stored) == 200, "a register")
	check(status(send("GET", "register", nil, "If-None-Match", tag)) == 304, "not changed")
	check(put("register", "two", "If-None-Match", "*") == 412, "create only")
	check(put("register", "two", "If-Match", tag) == 200, "the version seen")
	check(put("register", "three", "If-Match", tag) == 412, "an old version")
	check(string(get("register")) == "two", "the register")
}

// An upload leaves the old value, a download leaves a server that answers.
func cutOff(value []byte) {
	check(put("cut", "old") == 200, "the old value")
	reader, writer := io.Pipe()
	go func() {
		writer.Write(value[:1<<20])
		writer.CloseWithError(errors.New("broken"))
	}()
	request, err := http.NewRequest("PUT", at+"/cut", reader)
	must(err)
	_, err = http.DefaultClient.Do(request)
	check(err != nil, "an upload that breaks off is answered")
	check(string(get("cut")) == "old", "the value after an upload that broke off")
	answer := send("GET", "file", nil)
	first := make([]byte, 1000)
	_, err = io.ReadFull(answer.Body, first)
	must(err)
	answer.Body.Close()
	check(bytes.Equal(first, value[:1000]), "the beginning")
	check(string(get("cut")) == "old", "the value after a download that broke off")
}

func turn(n int) {
	key := fmt.Sprintf("many/%d/%d", n%5, n)
	check(put(key, key) == 200, "one of many")
	check(string(get(key)) == key, "the one of many")
	check(status(send("DELETE", key, nil)) == 200, "one removed")
	check(status(send("GET", key, nil)) == 404, "one gone")
}

func main() {
	value := make([]byte, 8<<20)
	_, err := rand.Read(value)
	must(err)
	whole(value)
	conditional()
	cutOff(value)
	var turns sync.WaitGroup
	for n := 0; n < 40; n++ {
		turns.Add(1)
		go func(n int) { defer turns.Done(); turn(n) }(n)
	}
	turns.Wait()
	fmt.Println("held")
}
