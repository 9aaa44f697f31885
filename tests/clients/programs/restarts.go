// net/http of Go, beside restarts: stores and reads until the file of the second argument is there. A refused connection is no error.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var answered, refused atomic.Int64

// One request; false when there is no server. Whoever gets no response to a PUT does not know whether it was performed, so net/http does not repeat it.
func ask(method, at, value string) bool {
	request, err := http.NewRequest(method, at, strings.NewReader(value))
	if err != nil {
		panic(err)
	}
	response, err := http.DefaultClient.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		refused.Add(1)
		time.Sleep(5 * time.Millisecond)
		return false
	}
	if err != nil {
		panic(fmt.Sprint("after ", answered.Load(), " responses: ", err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 || method == "GET" && !bytes.Equal(body, []byte(value)) {
		panic(fmt.Sprint(method, ": ", response.Status, " ", err, " ", string(body)))
	}
	answered.Add(1)
	return true
}

func main() {
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 8
	var all sync.WaitGroup
	for n := range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			at := fmt.Sprintf("%s/go-%d", os.Args[1], n)
			for round := 0; ; round++ {
				if _, err := os.Stat(os.Args[2]); err == nil {
					return
				}
				value := fmt.Sprint("value ", round)
				for !ask("PUT", at, value) {
				}
				for !ask("GET", at, value) {
				}
			}
		}()
	}
	all.Wait()
	fmt.Println(answered.Load(), "answered,", refused.Load(), "refused")
}
