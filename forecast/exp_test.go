package forecast
import ("testing";"os";"path/filepath";"fmt";"time";"strings";"math";"encoding/csv")
func TestExp(t *testing.T){
 files,_:=filepath.Glob("../../shared/data/demand/*.csv")
 var gm [4]float64; n:=0
 var pc [4][2]float64
 for _,f:=range files{
  b,_:=os.ReadFile(f)
  hd,_:=csv.NewReader(strings.NewReader(string(b))).Read()
  cols:=hd[1:]
  if len(cols)>8 {cols=[]string{cols[0],cols[3],cols[5], cols[40]}}
  for _,c:=range cols{
  if c=="gap"||strings.Contains(c,"share")||c=="clients_active"||c=="rpm_min"||c=="rpm_max" {continue}
  o:=CSVOptions{Column:c}
  if strings.Contains(f,"10min.csv") && strings.Contains(f,"serve") {o.MissingWhere="gap=1"}
  s,err:=ReadCSV(strings.NewReader(string(b)),o)
  if err!=nil {t.Error(err);continue}
  if s.span(s.Len())<6*day {continue}
  H:=max(1,int(10*time.Minute/s.Step))
  if os.Getenv("EXPH")!="" {H=max(1,int(time.Hour/s.Step))}
  var ms []Forecaster
  for _,nm:=range Names(){m,_:=New(nm,Options{Horizon:H});ms=append(ms,m)}
  r,err:=Backtest(s,ms,BacktestConfig{Horizon:H,Test:3*day,Stride: max(1,H),Quantiles:DefaultQuantiles()})
  if err!=nil{t.Error(f,c,err);continue}
  line:=fmt.Sprintf("%-22.22s %-12.12s n=%d ",filepath.Base(f),c,r.Origins)
  for i,m:=range r.Models{ if m.WQL==nil{line+=" nil";continue}
   line+=fmt.Sprintf(" %s %.4f/%.4f",m.Model,*m.WQL,*m.PeakWQL); gm[i]+=math.Log(*m.WQL+*m.PeakWQL)
   pc[i][0]+=m.Peaks[3].Coverage; pc[i][1]+=m.Peaks[5].Coverage }
  n++
  sk:=ms[0].(*Auto)
  ok,_:=sk.Skill().MayShrink()
  line+=fmt.Sprintf(" %v %.2f",ok,sk.score.weights)
  fmt.Println(line)
  }}
 for i:=range gm{fmt.Printf("%s %.5f peak50 %.3f peak90 %.3f\n",Names()[i],math.Exp(gm[i]/float64(n)),pc[i][0]/float64(n-1),pc[i][1]/float64(n-1))}
}
